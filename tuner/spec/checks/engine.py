"""The fixed flags and variables, of the engine and of bundles."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tuner.spec.document import SpaceDocument
from tuner.spec.flags import env_loads_code, flag_loads_code, flag_name, names_secret, positive
from tuner.spec.strict_yaml import Document, Place
from tuner.spec.values import FileValue, ListValue, SecretValue, text_of

ALLOW = "set engine: allow_code: true if you trust it"
OPEN_KEYS = frozenset({"VLLM_API_KEY"})


def check_engine(document: SpaceDocument, source: Document) -> None:
    """Check what the engine and every bundle set.

    Raises:
        SpaceError: At the first thing that does not hold.
    """
    allow = document.engine.allow_code
    _check_flags(document.engine.flags, ("engine", "flags"), source, allow_code=allow)
    _check_env(document.engine.env, ("engine", "env"), source, allow_code=allow)
    for name, parameter in document.parameters.items():
        for label, bundle in (parameter.bundle or {}).items():
            place = ("parameters", name, "bundle", label)
            _check_flags(bundle.flags, (*place, "flags"), source, allow_code=allow)
            _check_env(bundle.env, (*place, "env"), source, allow_code=allow)


def _check_flags(
    flags: Mapping[str, Any], place: Place, source: Document, *, allow_code: bool
) -> None:
    written = _written(place, source)
    for flag, value in flags.items():
        here = (*place, written[flag])
        check_fixed_value(flag, value, here, source)
        inner = value.list if isinstance(value, ListValue) else value
        if not allow_code and (what := flag_loads_code(flag, inner)):
            raise source.error(here, f"{what} makes the server load code or open files", ALLOW)


def _written(place: Place, source: Document) -> dict[str, str]:
    """The spelling in the file of each flag; two spellings of one flag are refused."""
    if source.place(place) != place:
        return {}
    spellings: dict[str, str] = {}
    seen: dict[str, str] = {}
    for text in source.at(place):
        flag = flag_name(text)
        first = seen.setdefault(positive(flag), text)
        if first != text:
            raise source.error(
                (*place, text), f"{text} and {first} are the same flag", "keep one of the two"
            )
        spellings[flag] = text
    return spellings


def check_fixed_value(flag: str, value: Any, place: Place, source: Document) -> None:
    """Check the fixed value of one flag.

    Raises:
        SpaceError: When it cannot be given to a server.
    """
    if value is None:
        raise source.error(place, f"{flag} has no value", "write true for a flag without a value")
    if value is False:
        raise source.error(
            place, f"{flag}: false is not clear", f"write --no-{flag[2:]}: true, or leave it out"
        )
    if isinstance(value, ListValue):
        check_items(flag, value.list, value.join, place, source)
    if isinstance(value, Mapping):
        check_json(flag, value, place, source)


def check_items(
    flag: str, items: tuple[Any, ...], join: str, place: Place, source: Document
) -> None:
    """Check that a list can be given to a server in its manner.

    Raises:
        SpaceError: When an item would be read as something else.
    """
    for item in items:
        if item is None or isinstance(item, bool):
            raise source.error(place, f"{flag}: a list holds text and numbers", "quote it")
        text = text_of(item)
        if join == "comma" and "," in text:
            raise source.error(place, f"{flag}: {text!r} holds a comma", "use join: repeat")
        if join == "space" and (text.startswith("-") or text == ""):
            raise source.error(
                place, f"{flag}: {text!r} would be read as a flag", "use join: comma"
            )


def check_json(flag: str, value: Any, place: Place, source: Document) -> None:
    """Check that a value can be written as JSON.

    Raises:
        SpaceError: When a number in it has no JSON form.
    """
    if isinstance(value, Mapping):
        for item in value.values():
            check_json(flag, item, place, source)
    elif isinstance(value, tuple):
        for item in value:
            check_json(flag, item, place, source)
    elif isinstance(value, float) and not math.isfinite(value):
        raise source.error(place, f"{flag}: JSON has no {text_of(value)}", 'quote it: "inf"')


def json_object(value: Any) -> dict[str, Any] | None:
    """A fixed value as a JSON object, where it is one: a mapping, or text that holds one."""
    if isinstance(value, Mapping):
        return json.loads(json.dumps(value))  # type: ignore[no-any-return] # an object stays one
    if isinstance(value, str):
        try:
            found = json.loads(value, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None
    return None


def _no_constant(text: str) -> None:
    raise ValueError(f"JSON has no {text}")


def _check_env(env: Mapping[str, Any], place: Place, source: Document, *, allow_code: bool) -> None:
    for name, value in env.items():
        here = (*place, name)
        if value is None or isinstance(value, bool):
            said = "nothing" if value is None else str(value).lower()
            raise source.error(here, f"{name}: {said} is not clear", 'quote the text, as in "1"')
        check_env_name(name, here, source, allow_code=allow_code)
        if not isinstance(value, SecretValue | FileValue) and names_secret(name):
            raise source.error(
                here,
                f"{name} seems to hold a secret, which does not belong into a file",
                f"write {name}: {{from_env: {name}}}",
            )


def check_env_name(name: str, place: Place, source: Document, *, allow_code: bool) -> None:
    """Check that a search space may set an environment variable.

    Raises:
        SpaceError: When it may not.
    """
    if name in OPEN_KEYS:
        raise source.error(
            place,
            f"{name}: trials listen on 127.0.0.1 and the load client sends no key",
            "leave it out here, and set it where the model is deployed",
        )
    if not allow_code and env_loads_code(name):
        raise source.error(place, f"{name} makes processes load code, or opens the server", ALLOW)

"""What pydantic found, as one line that names the file, the line and the mend."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tuner.errors import SpaceError
from tuner.spec.strict_yaml import Document, Place

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?|true|false")
_WANTED: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "none_required": "null",
}
_OF_CONTENT = frozenset({"value_error", "assertion_error"})
"""Of the right kind, and wrong all the same: of a choice between kinds, that is what to say."""

_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def complaint(error: ValidationError, source: Document, model: type[BaseModel]) -> SpaceError:
    """The first mistake of a file, in words.

    A misspelt key shows twice, as an unknown key and as a missing one; the unknown one is said.

    Args:
        error: What pydantic raised.
        source: The file's content and places.
        model: The model that was asked for, whose keys may be suggested.
    """
    details = error.errors(include_input=False, include_url=False, include_context=True)
    unknown = [item for item in details if item["type"] == "extra_forbidden"]
    placed = [(source.place(_way(item["loc"])), item) for item in unknown or details]
    place, first = min(placed, key=lambda pair: source.line(pair[0]))
    here = [item for other, item in placed if other == place]
    message, mend = (
        _unknown(first, place, source, model) if unknown else _words(here, place, source)
    )
    more = len({other for other, _ in placed}) - 1
    if more and not unknown:
        message = f"{message} (and {more} more)"
    return source.error(place, message, mend)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    begun = (name for name in names if len(word) > 2 and name.startswith(word))
    return close[0] if close else next(begun, None)


def _way(loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The way to the value in the file, without the names of kinds that look like keys."""
    way = list(loc)
    tag = {"workload": 1, "workloads": 2}.get(str(loc[0]) if loc else "")
    if tag is not None:
        del way[tag : tag + 1]
    return tuple(way)


def _name(place: Place) -> str:
    """A place as people write it: ``rules[0].reason``."""
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "the file"


def _unknown(
    item: ErrorDetails, place: Place, source: Document, model: type[BaseModel]
) -> tuple[str, str]:
    key, known = str(place[-1]), _siblings(item, model)
    if key in known:
        return f"{_name(place)} does not go with the other keys there", "delete it"
    if source.at(place) is None and not key.isidentifier():
        return f"unknown key {_name(place)}", "quote the text before it, as it holds a comma"
    guess = nearest(key, known)
    return f"unknown key {_name(place)}", f"did you mean {guess}?" if guess else "delete it"


def _words(items: list[ErrorDetails], place: Place, source: Document) -> tuple[str, str | None]:
    """What is wrong at a place, and the mend; of a choice between kinds, all that are wanted."""
    if unfit := next((item for item in items if item["type"] in _OF_CONTENT), None):
        return f"{_name(place)}: {unfit['ctx']['error']}", None
    wanted = list(dict.fromkeys(_WANTED[i["type"]] for i in items if i["type"] in _WANTED))
    if wanted:
        wanted += [str(i["ctx"]["expected"]) for i in items if i["type"] == "literal_error"]
        value = source.at(place)
        said = f"{_name(place)} must be {' or '.join(wanted)}, and is {_kind(value)}"
        return said, _quoting(wanted, value)
    item = items[0]
    kind, name = item["type"], _name(place)
    context: dict[str, Any] = item.get("ctx", {})
    if kind == "missing":
        return f"{_name((*place, str(item['loc'][-1])))} is missing", "add it"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"{name} must be {words} {context[bound]}", None
    return _rarer(kind, context, name, item["msg"])


def _rarer(kind: str, context: dict[str, Any], name: str, message: str) -> tuple[str, str | None]:
    if kind in {"literal_error", "union_tag_invalid"}:
        expected = context.get("expected") or context.get("expected_tags")
        return f"{name} must be {str(expected).replace(', ', ' or ')}", None
    if kind == "union_tag_not_found":
        return f"{name} has no kind", "add kind: conversations, for instance"
    if kind == "string_pattern_mismatch":
        return f"{name} is not written as it must be", f"it must match {context['pattern']}"
    if kind == "string_too_long":
        return f"{name} is longer than {context['max_length']} characters", "shorten it"
    if kind in {"too_short", "string_too_short"}:
        return f"{name} is empty", "write at least one"
    if kind == "too_long":
        return f"{name} has too many items", f"at most {context['max_length']}"
    return f"{name} {message[:1].lower()}{message[1:]}", None


def _kind(value: Any) -> str:
    if isinstance(value, float):
        return "a number with a point"
    names = {bool: "true or false", int: "a number", str: "text", tuple: "a list"}
    return {**names, dict: "a mapping", type(None): "empty"}[type(value)]


def _quoting(wanted: list[str], value: Any) -> str | None:
    if wanted == ["text"] and isinstance(value, bool | int | float):
        return "quote it"
    if "text" not in wanted and isinstance(value, str) and _NUMBER.fullmatch(value):
        return "write it without quotes"
    return None


def _siblings(item: ErrorDetails, model: type[BaseModel]) -> list[str]:
    """The keys that are known where an unknown one stands."""
    here: set[type[BaseModel]] = {model}
    for step in item["loc"][:-1]:
        inner = {kind for parent in here for kind in _field_models(parent, str(step))}
        here = inner or here
    return [key for kind in here for key in _keys(kind)]


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _field_models(model: type[BaseModel], step: str) -> set[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if step == (field.alias or name):
            return set(_models_in(field.annotation))
    return set()


def _models_in(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)

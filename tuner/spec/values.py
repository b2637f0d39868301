"""Values of flags, variables and parameters: how they are written, kept, and given to a server."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema

from tuner.spec.base import MAX_TEXT, EnvName, Line, Strict, Text
from tuner.spec.evaluation import Value

PointValue = None | bool | int | float | str | list[Any] | dict[str, Any]
"""A parameter's value as a point, the ledger and JSON keep it."""

Join = Literal["comma", "space", "repeat"]
"""How a list becomes arguments: ``a,b``, ``--x a b`` or ``--x a --x b``."""


def _number(number: float) -> float:
    if math.isnan(number):
        raise ValueError("is not a number, and so equals nothing: write a value")
    return number


Number = Annotated[float, Field(allow_inf_nan=True), AfterValidator(_number)]
Plain = Text | int | Number | bool | None

_TEXT_OR_NUMBER: list[dict[str, Any]] = [
    {"type": "string", "pattern": r"^[^\x00-\x1f\x7f]*$", "maxLength": MAX_TEXT},
    {"type": "number"},
]
_OfFlag = Annotated[Plain, WithJsonSchema({"anyOf": [*_TEXT_OR_NUMBER, {"const": True}]})]
_OfEnv = Annotated[Plain, WithJsonSchema({"anyOf": _TEXT_OR_NUMBER})]
_Object = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "not": {"required": ["list"]}})
]


class FileValue(Strict):
    """A file as a value: its path is given to the server, its content belongs to the search space."""

    file: Line
    """The path, relative to the search space."""


class ListValue(Strict):
    """A list as the fixed value of a flag."""

    list: Annotated[tuple[Plain, ...], Field(min_length=1)]
    """The items."""
    join: Join
    """How they become arguments."""


class SecretValue(Strict):
    """A value that is taken from the environment of the tuner when a server starts, and never kept."""

    from_env: EnvName
    """The variable to take it from."""


def _choice_form(value: Any) -> str:
    if isinstance(value, tuple):
        return "a list"
    return "a file" if isinstance(value, dict | FileValue) else "a scalar"


def _flag_form(value: Any) -> str | None:
    if isinstance(value, tuple):
        return None
    if isinstance(value, ListValue) or (isinstance(value, dict) and "list" in value):
        return "items"
    if isinstance(value, FileValue) or (isinstance(value, dict) and set(value) == {"file"}):
        return "a file"
    return "an object" if isinstance(value, dict) else "a scalar"


def _env_form(value: Any) -> str:
    if isinstance(value, SecretValue) or (isinstance(value, dict) and "from_env" in value):
        return "a secret"
    return "a file" if isinstance(value, dict | FileValue) else "a scalar"


Items = Annotated[tuple[Plain, ...], Field(min_length=1)]
ChoiceValue = Annotated[
    Annotated[Plain, Tag("a scalar")]
    | Annotated[Items, Tag("a list")]
    | Annotated[FileValue, Tag("a file")],
    Discriminator(_choice_form),
]
"""One choice of a parameter: text, a number, true, false, null (the flag is absent), a list, a file."""

FlagValue = Annotated[
    Annotated[_OfFlag, Tag("a scalar")]
    | Annotated[ListValue, Tag("items")]
    | Annotated[FileValue, Tag("a file")]
    | Annotated[_Object, Tag("an object")],
    Discriminator(
        _flag_form,
        custom_error_type="list_of_unknown_manner",
        custom_error_message="is a list: write {list: [...], join: comma}, or join: space, or repeat",
    ),
]
"""The fixed value of a flag: text, a number, true (the bare flag), a list, a file, a JSON object."""

EnvValue = Annotated[
    Annotated[_OfEnv, Tag("a scalar")]
    | Annotated[FileValue, Tag("a file")]
    | Annotated[SecretValue, Tag("a secret")],
    Discriminator(_env_form),
]
"""The fixed value of an environment variable: text, a number, a file, a secret by its name."""

Scalar = str | int | float | bool | None
Choice = Scalar | tuple[Scalar, ...] | FileValue
"""What :data:`ChoiceValue` holds once it is read."""


def label(choice: Choice) -> PointValue:
    """A choice as points keep it: plain JSON, and different for different choices."""
    if isinstance(choice, FileValue):
        return {"file": choice.file}
    if isinstance(choice, tuple):
        return [label(item) for item in choice]
    if isinstance(choice, float) and math.isinf(choice):
        return text_of(choice)
    return choice


def meaning(choice: Choice) -> Value:
    """A choice as expressions see it; a file is its path as written."""
    return choice.file if isinstance(choice, FileValue) else choice


def key(value: PointValue) -> str:
    """A text that tells values of points apart: 4 from "4", and 1 from true."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def text_of(value: str | float) -> str:
    """A value as an argument or a variable carries it."""
    if isinstance(value, str):
        return value
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def flag_items(flag: str, text: str) -> tuple[str, ...]:
    """A flag and its value as arguments.

    Two items, as deployment files want them; one item with ``=`` where the value alone would be
    taken for a flag.
    """
    return (f"{flag}={text}",) if text.startswith("-") or text == "" else (flag, text)


def list_items(flag: str, texts: tuple[str, ...], join: Join) -> tuple[str, ...]:
    """A flag and a list as arguments."""
    if join == "comma":
        return flag_items(flag, ",".join(texts))
    if join == "repeat":
        return tuple(item for text in texts for item in flag_items(flag, text))
    return (flag, *texts)


def json_text(value: Any) -> str:
    """A JSON value as one argument: the same text for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

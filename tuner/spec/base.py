"""What all models of the search space share: strictness, and the amounts as people write them."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import WithJsonSchema

from tuner.quantity import parse_bytes, parse_seconds


class Strict(BaseModel):
    """The base of everything that a search space declares.

    Unknown keys are refused (a key that is misspelt would otherwise do nothing), nothing is
    converted ("4" is text and 4 is a number), and a loaded value never changes.
    """

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        populate_by_name=False,
    )


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        return parse_seconds(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("is no duration: write a number of seconds, or text as in 90s or 1h30m")
    return float(value)


def _size(value: Any) -> Any:
    if isinstance(value, str):
        return parse_bytes(value)
    raise ValueError("is no size: write it with its unit, as in 8GiB")


Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(ge=0),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"},
            ]
        }
    ),
]
"""A duration: a number of seconds, or text such as ``90s`` and ``1h30m``."""

Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(gt=0),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"},
            ]
        }
    ),
]
"""A duration that is not nothing."""

MAX_TEXT = 8192

_UNFIT = re.compile("[\x00-\x1f\x7f]")


def _fit(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise ValueError(f"is longer than {MAX_TEXT} characters: put it into a file")
    if _UNFIT.search(text):
        raise ValueError("must be one line, without control characters")
    return text


def _told(text: str) -> str:
    told = " ".join(text.split())
    if not told:
        raise ValueError("is empty: say it in a few words")
    return told


_LINE = r"^[^\x00-\x1f\x7f]"

Text = Annotated[
    str,
    AfterValidator(_fit),
    WithJsonSchema({"type": "string", "pattern": f"{_LINE}*$", "maxLength": MAX_TEXT}),
]
"""Text of one line, as an argument or a variable can carry it."""

Line = Annotated[
    str,
    Field(min_length=1),
    AfterValidator(_fit),
    WithJsonSchema({"type": "string", "pattern": f"{_LINE}+$", "maxLength": MAX_TEXT}),
]
"""Text of one line that is not empty."""

Note = Annotated[
    str,
    Field(max_length=2000),
    AfterValidator(_told),
    WithJsonSchema({"type": "string", "pattern": r"\S", "maxLength": 2000}),
]
"""A text for people; however it is broken into lines, it is shown as one."""

_SIZE_SCHEMA = {"type": "string", "pattern": r"^\d+(\.\d+)? ?([KMGT]i?)?B$"}

Bytes = Annotated[int, BeforeValidator(_size), Field(ge=1), WithJsonSchema(_SIZE_SCHEMA)]
"""A size with its unit, such as ``8GiB``; kept in bytes."""


def written_as(pattern: str, how: str) -> tuple[AfterValidator, WithJsonSchema]:
    """What makes a text match a pattern, with a message that says how it is written.

    Args:
        pattern: A regular expression for the whole text.
        how: How such a text is written, for people.
    """
    whole = re.compile(pattern, re.ASCII)  # as JSON Schema reads it

    def check(text: str) -> str:
        if not whole.fullmatch(text):
            raise ValueError(f"{text!r} is not written as it must be: {how}")
        return text

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


Slug = Annotated[
    str,
    *written_as(
        r"[a-z0-9][a-z0-9._-]{0,62}",
        "small letters, digits, dots, dashes and underscores, at most 63 of them",
    ),
]
"""A name that is also the name of a folder."""

EnvName = Annotated[
    str, *written_as(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "letters, digits and underscores")
]
"""The name of an environment variable."""

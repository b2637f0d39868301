"""What pydantic found, as one line that names the file, the line and the mend."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tuner.errors import SpaceError
from tuner.spec.strict_yaml import Document

_KIND_FREE = re.compile(
    r"^(a number|a range|a skew|ranges|a scalar|a list|a file|items|an object|a secret)$"
)
_WANTED: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
}
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
    ranked = unknown or details
    ways = [(_way(item["loc"]), item) for item in ranked]
    way, first = min(ways, key=lambda pair: source.line(pair[0]))
    message, mend = _words(first, way, source, model)
    more = len(details) - 1
    if more and not unknown:
        message = f"{message} (and {more} more)"
    return source.error(way, message, mend)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def _way(loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The way to the value in the file: pydantic's names of union members are left out."""
    way = [step for step in loc if not (isinstance(step, str) and _KIND_FREE.match(step))]
    tag = {"workload": 1, "workloads": 2}.get(str(loc[0]) if loc else "")
    if loc[:3] in {("engine", "model", "made"), ("engine", "model", "stored")}:
        tag = 2
    if tag is not None:
        del way[tag : tag + 1]
    return tuple(step for step in way if step != "[key]")


def _words(
    item: ErrorDetails, way: tuple[int | str, ...], source: Document, model: type[BaseModel]
) -> tuple[str, str | None]:
    kind = item["type"]
    context: dict[str, Any] = item.get("ctx", {})
    name = ".".join(str(step) for step in way) or "the file"
    if kind == "missing":
        return f"{name} is missing", "add it"
    if kind == "extra_forbidden":
        guess = nearest(str(way[-1]), _siblings(item, model))
        return f"unknown key {name}", f"did you mean {guess}?" if guess else "delete it"
    if kind in _WANTED:
        return f"{name} must be {_WANTED[kind]}{_is(source, way)}", _quote(kind, source, way)
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"{name} must be {words} {context[bound]}", None
    if kind in {"value_error", "assertion_error"}:
        return f"{name}: {context['error']}", None
    return _rarer(kind, context, name, item["msg"])


def _rarer(kind: str, context: dict[str, Any], name: str, message: str) -> tuple[str, str | None]:
    if kind in {"literal_error", "union_tag_invalid"}:
        expected = context.get("expected") or context.get("expected_tags")
        return f"{name} must be one of {str(expected).replace(' or ', ', ')}", None
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
    return f"{name}: {message[:1].lower()}{message[1:]}", None


def _is(source: Document, way: tuple[int | str, ...]) -> str:
    place = source.place(way)
    if len(place) != len(way):
        return ""
    return f", and is {_kind(source.at(place))}"


def _kind(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", str: "text"}
    names |= {tuple: "a list", dict: "a mapping", type(None): "empty"}
    return names[type(value)]


def _quote(kind: str, source: Document, way: tuple[int | str, ...]) -> str | None:
    place = source.place(way)
    value = source.at(place) if len(place) == len(way) else None
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "quote it"
    if kind != "string_type" and isinstance(value, str) and len(value) < 40:
        return "write it without quotes" if value.isascii() and value.isalnum() else None
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

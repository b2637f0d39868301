"""What pydantic found, as one line that names the file, the line and the mend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tuner.errors import SpaceError
from tuner.spec.mends import MOST_KEYS, among, fitting, known_keys, nearest, share, shown
from tuner.spec.strict_yaml import Document, Place

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

_OF_KINDS = frozenset({"union_tag_invalid", "union_tag_not_found"})
_MEANT: Mapping[str, tuple[str, ...]] = {
    "because": ("reason",),
    "condition": ("when",),
    "default": ("baseline",),
    "if": ("when",),
    "initial": ("baseline",),
    "iterations": ("trials",),
    "max": ("high",),
    "max_tokens": ("output_tokens",),
    "min": ("low",),
    "name": ("study", "path"),
    "number": ("count",),
    "options": ("choices",),
    "time": ("wall",),
    "timeout": ("request_timeout", "wall"),
    "values": ("choices",),
    "why": ("reason",),
}
"""What people call a key elsewhere, and what it may be called here."""

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
    placed = [(_place(item, source), item) for item in unknown or details]
    place, first = min(placed, key=lambda pair: source.line(pair[0]))
    here = [item for other, item in placed if other == place]
    message, mend = (
        _unknown(first, place, source, model) if unknown else _words(here, place, source, model)
    )
    more = len({other for other, _ in placed}) - 1
    if more and not unknown:
        message = f"{message} (and {more} more)"
    return source.error(place, message, mend)


def _place(item: ErrorDetails, source: Document) -> Place:
    """Where an error stands in the file: a wrong kind at the key that says it, or that nearly does."""
    place = source.place(_way(item["loc"]))
    if item["type"] not in _OF_KINDS:
        return place
    named = item["ctx"]["discriminator"].strip("'")
    keys = source.at(place) if isinstance(source.at(place), dict) else {}
    meant = named if named in keys else next((k for k in keys if nearest(k, [named])), None)
    return place if meant is None else (*place, meant)


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
    guess = next((word for word in _MEANT.get(key, ()) if word in known), nearest(key, known))
    return f"unknown key {_name(place)}", f"did you mean {guess}?" if guess else known_keys(known)


def _words(
    items: list[ErrorDetails], place: Place, source: Document, model: type[BaseModel]
) -> tuple[str, str | None]:
    """What is wrong at a place, and the mend; of a choice between kinds, all that are wanted."""
    if unfit := next((item for item in items if item["type"] in _OF_CONTENT), None):
        return f"{_name(place)}: {unfit['ctx']['error']}", None
    if beyond := next((item for item in items if item["type"] in _BOUNDS), None):
        return _bound(beyond, _name(place), source.at(place))
    wanted = list(dict.fromkeys(_WANTED[i["type"]] for i in items if i["type"] in _WANTED))
    words = [str(i["ctx"]["expected"]) for i in items if i["type"] == "literal_error"]
    value = source.at(place)
    if wanted or words:
        said = " or ".join([*wanted, *(word.replace(", ", " or ") for word in words)])
        mend = among(value, words) or fitting(wanted, value) or _form(items[0], place, value, model)
        return f"{_name(place)} must be {said}, and is {shown(value, words)}", mend
    item = items[0]
    kind, name = item["type"], _name(place)
    context: dict[str, Any] = item.get("ctx", {})
    if kind == "missing":
        return f"{_name((*place, str(item['loc'][-1])))} is missing", "add it"
    if kind in _OF_KINDS:
        return _kinds(kind, context, place, value)
    return _rarer(kind, context, name, item["msg"])


def _bound(item: ErrorDetails, name: str, value: Any) -> tuple[str, str | None]:
    which, bound = _BOUNDS[item["type"]]
    limit = item["ctx"][bound]
    return f"{name} must be {which} {limit}", share(value, limit)


def _form(item: ErrorDetails, place: Place, value: Any, model: type[BaseModel]) -> str | None:
    """The mend for something else where a mapping is wanted: the keys that it has."""
    if place[:1] == ("workloads",) and len(place) == 2:
        return "for a single one write workload: in place of workloads:"
    if isinstance(value, dict) or item["type"] not in {"model_type", "model_attributes_type"}:
        return None
    keys = _siblings({**item, "loc": (*item["loc"], "")}, model)
    return f"it has the keys {', '.join(keys)}" if len(keys) <= MOST_KEYS else None


def _kinds(kind: str, context: dict[str, Any], place: Place, value: Any) -> tuple[str, str | None]:
    """What is wrong with the key that says which kind of thing a mapping is."""
    named = context["discriminator"].strip("'")
    if kind == "union_tag_invalid":
        expected = str(context["expected_tags"])
        said = f"must be {expected.replace(', ', ' or ')}, and is {shown(value, [expected])}"
        return f"{_name(place)} {said}", among(value, [expected])
    if place and place[-1] != named and not isinstance(value, dict):
        return f"unknown key {_name(place)}", f"did you mean {named}?"
    return f"{_name(place)} has no {named}", f"add {named}: conversations, for instance"


def _rarer(kind: str, context: dict[str, Any], name: str, message: str) -> tuple[str, str | None]:
    if kind == "string_pattern_mismatch":
        return f"{name} is not written as it must be", f"it must match {context['pattern']}"
    if kind == "string_too_long":
        return f"{name} is longer than {context['max_length']} characters", "shorten it"
    if kind in {"too_short", "string_too_short"}:
        return f"{name} is empty", "write at least one"
    if kind == "too_long":
        return f"{name} has too many items", f"at most {context['max_length']}"
    return f"{name} {message[:1].lower()}{message[1:]}", None


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

"""What a search space means, apart from how it is written: its fingerprint, and differences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from tuner.spec.document import Engine, SpaceDocument
from tuner.spec.expression import parse
from tuner.spec.levels import Level
from tuner.spec.parameter import Computed, Group, Parallel, Parameter, Rule
from tuner.spec.uses import UsedFile

_EXPRESSIONS: Mapping[type[BaseModel], frozenset[str]] = {
    Parameter: frozenset({"when"}),
    Computed: frozenset({"value"}),
    Group: frozenset({"when", "require"}),
    Parallel: frozenset({"equals", "divides"}),
    Rule: frozenset({"forbid", "require"}),
}
"""Which fields hold expressions, whose spelling makes no difference."""

_NOT_MEANT: Mapping[type[BaseModel], frozenset[str]] = {
    SpaceDocument: frozenset(
        {"study", "budget", "decode_profile", "export", "workload", "workloads"}
    ),
    Engine: frozenset({"port"}),
    Parameter: frozenset({"description", "unit"}),
    Computed: frozenset({"description"}),
    Group: frozenset({"description"}),
    Rule: frozenset({"reason"}),
    Level: frozenset({"leaves_out"}),
}
"""Which fields are not part of the meaning as they stand. Names that people choose never are here."""

Meaning = Mapping[str, Any]


def meaning_of(document: SpaceDocument, files: Mapping[str, UsedFile]) -> dict[str, Any]:
    """The meaning of a search space as plain JSON.

    The study's name, texts for people, the budget, whether the winner is profiled, the export and the
    server's port are no part of it: they may change while a study goes on. Formatting, comments, the
    order of keys, spellings of flags, expressions and durations, and values that are the defaults
    anyway make no difference.
    """
    return _meaning(document, files, whole=False)


def spelled_out(document: SpaceDocument, files: Mapping[str, UsedFile]) -> dict[str, Any]:
    """The meaning with every default written out, for showing differences."""
    return _meaning(document, files, whole=True)


def _meaning(
    document: SpaceDocument, files: Mapping[str, UsedFile], *, whole: bool
) -> dict[str, Any]:
    loads = {name: _model(load, whole=whole) for name, load in document.loads.items()}
    digests = {name: file.digest for name, file in sorted(files.items())}
    return {**_model(document, whole=whole), "workloads": loads, "files": digests}


def _model(model: BaseModel, *, whole: bool) -> dict[str, Any]:
    """What a model declares, by the keys of the file."""
    kind = type(model)
    left_out = _NOT_MEANT.get(kind, frozenset())
    found: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        value = getattr(model, name)
        usual = value is None if whole else value == field.get_default(call_default_factory=True)
        if name in left_out or usual:
            continue
        if name in _EXPRESSIONS.get(kind, ()) and isinstance(value, str):
            value = parse(value).canonical
        found[field.alias or name] = _plain(value, whole=whole)
    return found


def _plain(value: Any, *, whole: bool) -> Any:
    if isinstance(value, BaseModel):
        return _model(value, whole=whole)
    if isinstance(value, Mapping):
        return {key: _plain(item, whole=whole) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item, whole=whole) for item in value]
    return value


def fingerprint_of(meaning: Meaning) -> str:
    """SHA-256 of a meaning."""
    text = json.dumps(meaning, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(old: Meaning, new: Meaning) -> list[str]:
    """How one meaning differs from another, a line for each place, in the order of the names."""
    return list(_differences("", old, new))


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            here = f"{place}.{key}" if place else key
            if key not in new:
                yield f"{here}: gone (was {_short(old[key])})"
            elif key not in old:
                yield f"{here}: new ({_short(new[key])})"
            else:
                yield from _differences(here, old[key], new[key])
    elif json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True):
        yield f"{place}: {_short(old)} → {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 120 else f"{text[:117]}…"

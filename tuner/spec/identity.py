"""What a search space means, apart from how it is written: its fingerprint, and differences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tuner.spec.document import SpaceDocument
from tuner.spec.expression import parse
from tuner.spec.uses import UsedFile

_EXPRESSIONS = frozenset({"when", "require", "forbid", "value", "equals", "divides"})
_NOT_MEANT = frozenset({"study", "budget", "export"})
_FOR_PEOPLE = frozenset({"description", "unit", "reason"})

Meaning = Mapping[str, Any]


def meaning_of(document: SpaceDocument, files: Mapping[str, UsedFile]) -> dict[str, Any]:
    """The meaning of a search space as plain JSON.

    The study's name, texts for people, the budget, the export and the server's port are no part of
    it: they may change while a study goes on. Formatting, comments, the order of keys, spellings of flags and
    of durations, and values that are the defaults anyway make no difference.
    """
    return _meaning(document, files, whole=False)


def spelled_out(document: SpaceDocument, files: Mapping[str, UsedFile]) -> dict[str, Any]:
    """The meaning with every default written out, for showing differences."""
    return _meaning(document, files, whole=True)


def _meaning(
    document: SpaceDocument, files: Mapping[str, UsedFile], *, whole: bool
) -> dict[str, Any]:
    plain = document.model_dump(
        mode="json", by_alias=True, exclude_defaults=not whole, exclude_none=whole
    )
    if "workload" in plain:
        plain["workloads"] = {"main": plain.pop("workload")}
    plain["engine"].pop("port", None)
    kept = {key: _meant(key, value) for key, value in plain.items() if key not in _NOT_MEANT}
    return {**kept, "files": {name: file.digest for name, file in sorted(files.items())}}


def _meant(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        free = key in {"parameters", "groups", "computed", "flags", "env"}
        return {
            name: _meant(name, item)
            for name, item in value.items()
            if free or name not in _FOR_PEOPLE
        }
    if isinstance(value, list):
        return [_meant("", item) for item in value]
    if key in _EXPRESSIONS and isinstance(value, str):
        return parse(value).canonical
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

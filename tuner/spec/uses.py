"""Files whose content belongs to a search space: values of flags, traces and data sets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.spec.document import SpaceDocument
from tuner.spec.strict_yaml import Document, Place
from tuner.spec.values import FileValue
from tuner.spec.workload import Dataset, Replay


@dataclass(frozen=True, slots=True)
class UsedFile:
    """A file that a search space uses.

    Attributes:
        path: Where it lies, absolute.
        digest: SHA-256 of its content when the search space was read.
    """

    path: Path
    digest: str


def used_files(document: SpaceDocument, source: Document) -> dict[str, UsedFile]:
    """All files in use, by their path as written.

    Raises:
        SpaceError: When one cannot be read.
    """
    found: dict[str, UsedFile] = {}
    for place, written in _places(document):
        if written not in found:
            found[written] = _read(written, place, source)
    return found


def resolved(written: str, source: Document) -> Path:
    """A path of a search space, seen from the search space's own folder."""
    return (source.folder / Path(written).expanduser()).resolve()


def _read(written: str, place: Place, source: Document) -> UsedFile:
    path = resolved(written, source)
    try:
        if not path.is_file():
            raise source.error(
                place, f"there is no file {written}", f"put it at {path}, or mend the path"
            )
        with path.open("rb") as handle:
            return UsedFile(path, hashlib.file_digest(handle, "sha256").hexdigest())
    except OSError as error:
        raise source.error(place, f"{written} cannot be read: {error.strerror}") from error


def _places(document: SpaceDocument) -> Iterator[tuple[Place, str]]:
    engine = document.engine
    yield from _in_mapping(("engine", "flags"), engine.flags)
    yield from _in_mapping(("engine", "env"), engine.env)
    for name, parameter in document.parameters.items():
        place: Place = ("parameters", name)
        yield from _in_list((*place, "choices"), parameter.choices or ())
        yield from _in_list(place, (parameter.baseline,))
        for label, bundle in (parameter.bundle or {}).items():
            yield from _in_mapping((*place, "bundle", label, "flags"), bundle.flags)
            yield from _in_mapping((*place, "bundle", label, "env"), bundle.env)
    for name, group in document.groups.items():
        place = ("groups", name)
        for row in group.points or ():
            yield from _in_list((*place, "points"), tuple(row.values()))
        for columns in group.grids or (group.together or {},):
            for values in columns.values():
                yield from _in_list(place, values)
    for name, workload in document.loads.items():
        if isinstance(workload, Replay | Dataset):
            place = ("workload",) if document.workloads is None else ("workloads", name)
            yield (*place, "file"), workload.file


def _in_mapping(place: Place, values: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    for name, value in values.items():
        if isinstance(value, FileValue):
            yield (*place, name), value.file


def _in_list(place: Place, values: tuple[Any, ...]) -> Iterator[tuple[Place, str]]:
    for index, value in enumerate(values):
        if isinstance(value, FileValue):
            yield (*place, index), value.file

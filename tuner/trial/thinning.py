"""Keeping a state folder below its size: what losing trials left is packed, then removed; never the proof.

The proof of a trial is its log and what the ledger says of it: the verdict with its lines, every
figure, every gate. A log is packed at most, so that the numbers of its lines still hold. Nothing of
the baseline, of the best trials, of those that were measured again, or of a trial that is not over
is touched.
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tuner.launch.base import LOG_NAME
from tuner.store.ledger import Ledger
from tuner.store.rows import ON_PURPOSE, Origin, StudyRow, TrialRow
from tuner.store.stages import Stage
from tuner.trial.entry import study_folder

KEPT_BEST = 5
"""Best trials of a study whose artifacts stay as they are."""

_LARGE = 4096
"""Bytes below which packing a file gains nothing."""


@dataclass(frozen=True, slots=True)
class Thinned:
    """What was done.

    Attributes:
        before: Bytes of the folder before.
        after: Bytes of it now.
        packed: Files that were packed.
        removed: Files that were removed.
    """

    before: int
    after: int
    packed: int = 0
    removed: int = 0


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder, as they lie on the disk; links are not followed."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - a hot loop
            except FileNotFoundError:
                continue
    return total


def thin(ledger: Ledger, limit: int) -> Thinned:
    """Bring a state folder below a size, as far as that can be done without touching proof.

    In this order, the oldest trials first, until it is enough: telemetry, records and logs are
    packed; then telemetry is removed, then the records of probes and warm-ups, then those of the
    measurement.

    Args:
        ledger: The ledger of the folder, to be read.
        limit: Bytes to stay below.
    """
    before = size = folder_size(ledger.folder)
    packed = removed = 0
    if size <= limit:
        return Thinned(before, size)
    losers = list(_losers(ledger))
    for patterns, act in _ORDER:
        for folder in losers:
            for path in _files(folder, patterns):
                saved = _pack(path) if act == "pack" else _remove(path)
                size -= saved
                packed += act == "pack" and saved > 0
                removed += act == "remove"
                if size <= limit:
                    return Thinned(before, size, packed, removed)
    return Thinned(before, size, packed, removed)


_TELEMETRY, _WARM, _MEASURED = (
    ("telemetry.jsonl",),
    ("warm-*.jsonl", "probe-*.jsonl", "level-*.jsonl"),
    ("measure-*.jsonl",),
)
_ORDER: tuple[tuple[tuple[str, ...], Literal["pack", "remove"]], ...] = (
    (_TELEMETRY, "pack"),
    (_WARM, "pack"),
    (_MEASURED, "pack"),
    ((LOG_NAME,), "pack"),
    (_TELEMETRY, "remove"),
    (_WARM, "remove"),
    (_MEASURED, "remove"),
)


def _losers(ledger: Ledger) -> Iterator[Path]:
    """Folders of trials that lost, the oldest study's first."""
    for row in ledger.studies():
        yield from _losers_of(ledger, row)


def _losers_of(ledger: Ledger, row: StudyRow) -> Iterator[Path]:
    trials = ledger.trials(row.id, light=True, history=True)
    kept = _winners(trials)
    for trial in trials:
        folder = study_folder(ledger, row.name) / "trials" / f"{trial.number:04d}"
        if trial.number not in kept and trial.stage is Stage.TOLD and folder.is_dir():
            yield folder


def _winners(trials: list[TrialRow]) -> set[int]:
    """The trials whose artifacts stay: the baseline, the best, and all that has to do with repeats."""
    scored = [t for t in trials if t.feasible and t.score is not None and t.history is None]
    best = sorted(scored, key=lambda t: -(t.score or 0.0))[:KEPT_BEST]
    repeats = [t for t in trials if t.origin in ON_PURPOSE]
    kept = {t.number for t in trials if t.origin is Origin.BASELINE}
    kept |= {t.number for t in (*best, *repeats)}
    return kept | {t.repeats for t in repeats if t.repeats is not None}


def _files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """The files of a trial with these names, as they are and as they were packed."""
    found = {
        path
        for pattern in patterns
        for name in (pattern, f"{pattern}.gz")
        for path in folder.glob(f"attempt-*/{name}")
    }
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def _pack(path: Path) -> int:
    """Pack a file, unless it is small; the bytes that this saves."""
    size = path.stat().st_size
    if size < _LARGE or path.suffix == ".gz":
        return 0
    target = path.with_name(f"{path.name}.gz")
    beside = path.with_name(f".{path.name}.gz.tmp")
    try:
        with path.open("rb") as plain, beside.open("wb") as raw:
            os.fchmod(raw.fileno(), 0o600)
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out:
                shutil.copyfileobj(plain, out)
            raw.flush()
            os.fsync(raw.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    path.unlink()
    return size - target.stat().st_size


def _remove(path: Path) -> int:
    size = path.stat().st_size
    path.unlink()
    return size

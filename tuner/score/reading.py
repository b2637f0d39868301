"""Loads read back from files, a million requests in a few hundred megabytes.

The reader takes the columns that :class:`tuner.load.record.Record` has, and the names that other
tools give them. What a file does not have is left out, and the metrics say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.errors import UserError
from tuner.score.columns import Columns, Labels, digest_bits, take_chunks, times_backwards
from tuner.score.distribution import Floats
from tuner.score.intervals import Intervals
from tuner.score.rows import Row, rows

_BATCH = 4096

_NUMBERS: dict[str, tuple[tuple[str, float], ...]] = {
    "scheduled": (("scheduled", 1.0), ("scheduled_s", 1.0)),
    "sent": (("sent", 1.0), ("sent_s", 1.0)),
    "first_token": (("first_token", 1.0), ("first_token_s", 1.0)),
    "end": (("end", 1.0), ("end_s", 1.0)),
    "ttft_s": (("ttft_s", 1.0), ("ttft_ms", 1e-3)),
    "e2e_s": (("e2e_s", 1.0), ("e2e_ms", 1e-3), ("total_s", 1.0), ("total_ms", 1e-3)),
    "prompt_tokens": (("prompt_tokens", 1.0), ("input_tokens", 1.0)),
    "cached_tokens": (("cached_tokens", 1.0),),
    "output_tokens": (("output_tokens", 1.0), ("completion_tokens", 1.0)),
    "reasoning_tokens": (("reasoning_tokens", 1.0),),
    "repetitive_tokens": (("repetitive_tokens", 1.0),),
    "session": (("session", 1.0),),
    "turn": (("turn", 1.0),),
}
"""For each column the names it may have in a file, with what brings its unit to ours."""

_WORDS = ("error", "outcome", "finish_reason", "answer_digest", "chunk_times")
_SUCCESS_WORDS = frozenset({"ok", "success", "succeeded"})
_KNOWN = {name for names in _NUMBERS.values() for name, _ in names} | set(_WORDS)


def read_loads(lines: Iterable[bytes], file: Path) -> dict[str, Columns]:
    """The loads in a file, by name.

    A file whose rows have a ``run`` holds one load for each run; otherwise one for each
    ``workload``; otherwise one without a name.

    Args:
        lines: The file's lines, JSON or CSV.
        file: Its name, for messages.

    Raises:
        UserError: When the file is empty, has no column that is known, or has a line that cannot be
            read, with its number.
    """
    loads: dict[str, _Gatherer] = {}
    for numbers, batch in _batches(rows(lines, file)):
        for name, chosen in _by_load(batch).items():
            loads.setdefault(name, _Gatherer(file)).take(
                [batch[i] for i in chosen], [numbers[i] for i in chosen]
            )
    if not loads:
        raise UserError("the file has a header and no records", file=file)
    if not any(gatherer.present for gatherer in loads.values()):
        raise UserError(
            "no column of a record is in this file",
            file=file,
            mend="name them as a record does: sent, first_token, end, prompt_tokens, output_tokens …",
        )
    return {name: loads.pop(name).finish() for name in sorted(loads)}


def _batches(source: Iterator[tuple[int, Row]]) -> Iterator[tuple[list[int], list[Row]]]:
    numbers: list[int] = []
    batch: list[Row] = []
    for number, row in source:
        numbers.append(number)
        batch.append(row)
        if len(batch) == _BATCH:
            yield numbers, batch
            numbers, batch = [], []
    if batch:
        yield numbers, batch


def _by_load(batch: Sequence[Row]) -> dict[str, list[int]]:
    """Which rows belong to which load."""
    chosen: dict[str, list[int]] = {}
    for index, row in enumerate(batch):
        name = row.get("run")
        if name is None:
            name = row.get("workload")
        chosen.setdefault("" if name is None else str(name), []).append(index)
    return chosen


class _Gatherer:
    """Gathers the columns of one load, batch by batch."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.present: set[str] = set()
        self._floats: dict[str, list[Floats]] = {name: [] for name in _NUMBERS}
        self._faults: list[npt.NDArray[np.bool_]] = []
        self._digests: list[npt.NDArray[np.uint64]] = []
        self._error = _Words()
        self._finish_reason = _Words()
        self._itl = Intervals()

    def take(self, batch: Sequence[Row], lines: Sequence[int]) -> None:
        """Take rows and the lines that they stood on."""
        present = set().union(*batch) & _KNOWN
        self.present |= present
        numbers = {name: self._numbers(name, batch, lines, present) for name in _NUMBERS}
        for name, values in numbers.items():
            self._floats[name].append(values)
        self._error.take(_error(row, present) for row in batch)
        self._finish_reason.take(_word(row.get("finish_reason")) for row in batch)
        self._digests.append(np.array([_digest(row) for row in batch], dtype=np.uint64))
        faults = times_backwards(numbers["sent"], numbers["first_token"], numbers["end"])
        faults |= (numbers["ttft_s"] < 0) | (numbers["e2e_s"] < numbers["ttft_s"])
        if "chunk_times" in present:
            counted = (self._error.codes[-1] < 0) & ~faults
            faults |= self._chunks(batch, lines, counted)
        self._faults.append(faults)

    def _numbers(
        self, name: str, batch: Sequence[Row], lines: Sequence[int], present: set[str]
    ) -> Floats:
        """One column of a batch in our unit, from the first of its names that the batch has."""
        for key, unit in _NUMBERS[name]:
            if key in present:
                return self._floats_of([row.get(key) for row in batch], key, lines) * unit
        return np.full(len(batch), np.nan)

    def _floats_of(self, values: Sequence[Any], key: str, lines: Sequence[int]) -> Floats:
        try:
            found = np.array(values, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            found = np.array([])
        if found.shape == (len(values),) and not np.isinf(found).any():
            return found
        for value, line in zip(values, lines, strict=True):
            if not _is_number(value):
                raise UserError(
                    f"{key} must be a finite number, not {value!r:.60}", file=self._file, line=line
                )
        return np.array([np.nan if v is None else float(v) for v in values])

    def _chunks(
        self, batch: Sequence[Row], lines: Sequence[int], counted: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        times = [row.get("chunk_times") or () for row in batch]
        try:
            return take_chunks(times, counted, self._itl)
        except (ValueError, TypeError):
            for row, line in zip(batch, lines, strict=True):
                self._check_chunks(row.get("chunk_times"), line)
            raise

    def _check_chunks(self, times: Any, line: int) -> None:
        if times is None or (isinstance(times, list) and all(map(_is_number, times))):
            return
        raise UserError("chunk_times must be a list of numbers", file=self._file, line=line)

    def finish(self) -> Columns:
        """The columns of everything that was taken."""
        column = {name: _join(self._floats, name) for name in _NUMBERS}
        ttft = column["first_token"] - column["sent"]
        e2e = column["end"] - column["sent"]
        error = self._error.labels()
        if not self.present & {"error", "outcome"}:
            error = Labels(np.where(np.isfinite(column["output_tokens"]), -1, 0), ("unknown",))
        return Columns(
            scheduled=column["scheduled"],
            sent=column["sent"],
            end=column["end"],
            ttft_s=np.where(np.isnan(ttft), column["ttft_s"], ttft),
            e2e_s=np.where(np.isnan(e2e), column["e2e_s"], e2e),
            prompt_tokens=column["prompt_tokens"],
            cached_tokens=column["cached_tokens"],
            output_tokens=column["output_tokens"],
            reasoning_tokens=column["reasoning_tokens"],
            repetitive_tokens=column["repetitive_tokens"],
            session=_whole(column["session"]),
            turn=_whole(column["turn"]),
            error=error,
            finish_reason=self._finish_reason.labels(),
            digest=np.concatenate(self._digests),
            itl=self._itl,
            clock_faults=np.concatenate(self._faults),
            absent=frozenset(_absent(self.present)),
        )


class _Words:
    """Gathers a column of words."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self.codes: list[npt.NDArray[np.int32]] = []

    def take(self, words: Iterable[str | None]) -> None:
        index = self._index
        codes = [-1 if word is None else index.setdefault(word, len(index)) for word in words]
        self.codes.append(np.array(codes, dtype=np.int32))

    def labels(self) -> Labels:
        return Labels(np.concatenate(self.codes), tuple(self._index))


def _join(parts: dict[str, list[Floats]], name: str) -> Floats:
    """One column from its parts, which are let go."""
    return np.concatenate(parts.pop(name))


def _whole(values: Floats) -> npt.NDArray[np.int64]:
    """Numbers of conversations and turns; -1 where there is none or it is no such number."""
    usable = (values >= 0) & (values < 2**53)
    return np.where(usable, values, -1.0).astype(np.int64)


def _absent(present: set[str]) -> Iterator[str]:
    """The columns that a file with these names does not have."""
    for column, names in _NUMBERS.items():
        if not present & {name for name, _ in names}:
            yield column
    if not present & {"first_token", "first_token_s", "ttft_s", "ttft_ms"}:
        yield "first_token"


def _is_number(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(np.isfinite(float(value)))
    except (ValueError, TypeError, OverflowError):
        return False


def _word(value: Any) -> str | None:
    if value is None or value is False or value == "":
        return None
    return value if isinstance(value, str) else str(value)[:60]


def _error(row: Row, present: set[str]) -> str | None:
    if "outcome" not in present:
        return _word(row.get("error"))
    word = _word(row.get("outcome")) or "unknown"
    return None if word.lower() in _SUCCESS_WORDS else word


def _digest(row: Row) -> int:
    value = row.get("answer_digest")
    try:
        return digest_bits(value) if isinstance(value, str) else 0
    except ValueError:
        return hash(value) & 0xFFFFFFFFFFFFFFFF

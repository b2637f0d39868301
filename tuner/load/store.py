"""Records in files: one JSON object a line, written as they come and read one by one."""

from __future__ import annotations

import errno
import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

from tuner.errors import NoSpaceLeft, UserError
from tuner.load.record import ErrorClass, Record

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FIELDS = tuple(field.name for field in fields(Record))
_REQUIRED = ("workload", "session", "turn", "scheduled", "sent", "first_token", "end")
_TIMES = ("scheduled", "sent", "first_token", "end")
_COUNTS = (
    "session", "turn", "prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "status",
)  # fmt: skip
_TEXTS = ("workload", "finish_reason", "detail", "answer_digest")


def record_line(record: Record) -> str:
    """A record as one line of JSON, without what is not known. Times keep a tenth of a microsecond."""
    values: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(record, name)
        if name == "chunk_times":
            if value:
                values[name] = [round(at, 7) for at in value]
        elif value is not None or name in _REQUIRED:
            values[name] = round(value, 7) if isinstance(value, float) else value
    return json.dumps(values, separators=(",", ":"))


def dump_records(records: Iterable[Record], out: IO[str]) -> int:
    """Write records, one a line; how many they were."""
    count = 0
    for record in records:
        out.write(record_line(record) + "\n")
        count += 1
    return count


def write_records(path: Path, records: Iterable[Record]) -> int:
    """Write records to a file, in place of what it held; how many they were.

    Raises:
        NoSpaceLeft: When the disk is full.
        UserError: When the file cannot be written otherwise.
    """
    try:
        with path.open("w", encoding="utf-8", newline="\n") as out:
            return dump_records(records, out)
    except OSError as error:
        if error.errno in _FULL:
            raise NoSpaceLeft(
                f"the records cannot be written: {error.strerror}", file=path, mend="make room"
            ) from error
        raise UserError(f"the records cannot be written: {error.strerror}", file=path) from error


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, one by one, so that a file may be larger than memory.

    A file that was packed to save room is read as it was.

    Raises:
        UserError: When the file cannot be read or a line is not a record; it names the line.
    """
    try:
        with _opened(path) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _record(line, path, number)
    except UnicodeDecodeError:
        raise UserError("not a records file: it is not UTF-8", file=path) from None
    except OSError as wrong:
        raise UserError(f"cannot read the records: {wrong.strerror}", file=path) from None


def _opened(path: Path) -> IO[str]:
    """A records file, or the packed one that took its place."""
    packed = path.with_name(f"{path.name}.gz")
    if not path.exists() and packed.exists():
        return gzip.open(packed, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _record(line: str, path: Path, number: int) -> Record:
    try:
        values = json.loads(line)
        if not isinstance(values, dict):
            raise TypeError("it is not an object")  # noqa: TRY301  (all ways to fail end alike)
        return parse_record(values)
    except (ValueError, TypeError, RecursionError) as wrong:
        raise UserError(f"not a record: {wrong}", file=path, line=number) from None


def parse_record(values: dict[str, Any]) -> Record:
    """The record that :func:`record_line` wrote, checked.

    Raises:
        ValueError: When a field is missing or unknown.
        TypeError: When a field is of the wrong kind.
    """
    if unknown := sorted(values.keys() - set(_FIELDS)):
        raise ValueError(f"unknown field {unknown[0]!r}")
    if missing := [name for name in _REQUIRED if name not in values]:
        raise ValueError(f"field {missing[0]!r} is missing")
    for name in _TIMES:
        _check(name, values.get(name), (int, float), optional=name != "scheduled")
    for name in _COUNTS:
        _check(name, values.get(name), (int,), optional=name not in ("session", "turn"))
    for name in _TEXTS:
        _check(name, values.get(name), (str,), optional=name != "workload")
    times = values.get("chunk_times", [])
    if not isinstance(times, list) or not all(isinstance(at, int | float) for at in times):
        raise ValueError("field 'chunk_times' is not a list of numbers")
    error = values.get("error")
    known = {**values, "chunk_times": tuple(times)}
    known["error"] = None if error is None else ErrorClass(error)
    return Record(**known)


def _check(name: str, value: Any, kinds: tuple[type, ...], *, optional: bool) -> None:
    if value is None and optional:
        return
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise TypeError(f"field {name!r} is {value!r}")

"""Lines of JSON or CSV, one request a line, as rows with their line numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from tuner.errors import UserError

Row = dict[str, Any]
LONGEST_LINE = 16 * 2**20
"""Bytes that one request may take: 16 MiB hold the chunk times of half a million tokens."""


def rows(lines: Iterable[bytes], file: Path) -> Iterator[tuple[int, Row]]:
    """The rows of a file, each with its line number, counted from 1.

    The first line that is not blank decides: one that begins with a brace is JSON, another is the
    header of a CSV file. Blank lines are passed over. In CSV an empty field is None.

    Args:
        lines: The file's lines.
        file: The file's name, for messages.

    Raises:
        UserError: When a line is neither, with its number.
    """
    numbered = ((n, line) for n, line in enumerate(lines, start=1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise UserError("the file holds no records", file=file)
    number, line = first
    text = chain([(number, line.removeprefix(b"\xef\xbb\xbf"))], numbered)
    if text_starts(line) == b"{":
        return _json_rows(text, file)
    return _csv_rows(text, file)


def text_starts(line: bytes) -> bytes:
    """The first byte of a line that is not a blank or a byte order mark."""
    return line.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _json_rows(lines: Iterable[tuple[int, bytes]], file: Path) -> Iterator[tuple[int, Row]]:
    decode = _DECODER.decode
    for number, line in lines:
        if len(line) > LONGEST_LINE:
            raise UserError(f"a line of {len(line)} bytes is no record", file=file, line=number)
        try:
            row = decode(line.decode())
        except (ValueError, RecursionError) as error:
            mend = (
                None if line.endswith(b"\n") else "the last line may have been cut off: remove it"
            )
            why = "too deeply nested" if isinstance(error, RecursionError) else str(error)
            raise UserError(
                f"this is not a record in JSON: {why}", file=file, line=number, mend=mend
            ) from error
        if not isinstance(row, dict):
            raise UserError("a record must be a JSON object", file=file, line=number)
        yield number, row


def _csv_rows(lines: Iterable[tuple[int, bytes]], file: Path) -> Iterator[tuple[int, Row]]:
    at = 0

    def decoded() -> Iterator[str]:
        nonlocal at
        for number, line in lines:
            at = number
            yield line.decode()

    reader = csv.reader(decoded(), strict=True)
    try:
        header = [name.strip() for name in next(reader)]
        _check_header(header, file, at)
        for fields in reader:
            if len(fields) != len(header):
                raise UserError(
                    f"{len(fields)} fields where the header names {len(header)}", file=file, line=at
                )
            yield at, {k: v.strip() or None for k, v in zip(header, fields, strict=True)}
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"this is not CSV: {error}", file=file, line=at) from error


def _check_header(header: list[str], file: Path, line: int) -> None:
    twice = {name for name in header if header.count(name) > 1}
    if twice:
        raise UserError(f"the header names {min(twice)!r} twice", file=file, line=line)

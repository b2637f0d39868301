"""Strict changes to text files: every context line must match, there is no fuzz, nothing is half done.

Written here because it runs inside engines whose base has neither ``patch`` nor any library.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class PatchError(Exception):
    """A change that cannot be made."""

    def __init__(self, message: str, mend: str | None = None) -> None:
        self.mend = mend
        super().__init__(message)


def require(text: str, lines: Sequence[str], target: str) -> None:
    """Insist on lines (leading and trailing blanks aside) before a change.

    Raises:
        PatchError: When one is missing, or the file has CRLF line ends.
    """
    if "\r\n" in text:
        line = text[: text.index("\r\n")].count("\n") + 1
        raise PatchError(
            f"{target}:{line}: CRLF line ends", f"convert it: sed -i 's/\\r$//' {target}"
        )
    present = {line.strip() for line in text.split("\n")}
    for needed in lines:
        if needed.strip() not in present:
            raise PatchError(
                f"{target}: precondition not met: no line {needed.strip()!r}",
                "the base is another version than the patch was written for, or is patched already",
            )


def verify(text: str, line: str, target: str) -> None:
    """Insist on a line after a change.

    Raises:
        PatchError: When it is missing.
    """
    if line.strip() not in {found.strip() for found in text.split("\n")}:
        raise PatchError(
            f"{target}: after the change there is no line {line.strip()!r}",
            "correct the step's verify line or its change",
        )


def apply_edits(text: str, edits: Sequence[dict[str, Any]], target: str) -> str:
    """Replace texts that must be there exactly as often as each edit says.

    Raises:
        PatchError: When one is there less or more often.
    """
    for number, edit in enumerate(edits, 1):
        found = text.count(edit["old"])
        if found != edit["count"]:
            first = edit["old"].strip().split("\n")[0]
            raise PatchError(
                f"{target}: edit {number}: {first!r} is there {found} times, not {edit['count']}",
                "the base is another version than the edit was written for",
            )
        text = text.replace(edit["old"], edit["new"])
    return text


def apply_diff(text: str, diff: str, target: str, name: str) -> str:
    """Apply a unified diff of one file; hunks may have moved, but every line of them must match.

    Args:
        text: The file's content.
        diff: The diff.
        target: The file, for messages.
        name: The diff's file, for messages.

    Raises:
        PatchError: When a hunk does not apply, or the diff is malformed.
    """
    lines = _lines(text)
    shift = 0  # how far the file's lines are now from where the diff says they were
    floor = 0  # where the last hunk ended: hunks apply in order
    for hunk in _hunks(diff, name):
        wanted = hunk.first + shift
        place = _find(lines, hunk.old, wanted, floor)
        if place is None:
            raise PatchError(
                f"{name}:{hunk.at}: the hunk does not apply to {target}"
                f"{_first_difference(lines, hunk.old, wanted)}",
                "the base is another version than the patch was written for; make the patch anew",
            )
        lines[place : place + len(hunk.old)] = hunk.new
        shift += place - wanted + len(hunk.new) - len(hunk.old)
        floor = place + len(hunk.new)
    return "".join(lines)


def replace(path: Path, text: str) -> None:
    """Replace a file's content in one step, with its permission bits kept."""
    mode = path.stat().st_mode & 0o7777
    handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(text.encode("utf-8"))
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise


class _Hunk(NamedTuple):
    """One hunk: its line in the diff, its first line in the file from 0, and both sides' lines."""

    at: int
    first: int
    old: list[str]
    new: list[str]


def _lines(text: str) -> list[str]:
    """The lines of a text with their ends; only LF ends a line, whatever else Unicode has."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _hunks(diff: str, name: str) -> list[_Hunk]:
    lines = _lines(diff)
    found: list[_Hunk] = []
    number = 0
    while number < len(lines):
        head = _HUNK.match(lines[number])
        number += 1
        if head is None:
            continue
        at = number
        counts = [1 if size is None else int(size) for size in head.group(2, 3)]
        number, old, new = _body(lines, number, counts)
        if [len(old), len(new)] != counts:
            raise PatchError(f"{name}:{at}: the hunk is shorter than its head says", "make it anew")
        # A hunk without old lines says the line after which it goes; one with them, its first.
        found.append(_Hunk(at, int(head.group(1)) - (1 if old else 0), old, new))
    if not found:
        raise PatchError(f"{name}: no hunk in it", "a unified diff is expected: diff -u OLD NEW")
    return found


def _body(lines: list[str], number: int, counts: list[int]) -> tuple[int, list[str], list[str]]:
    """The lines of a hunk from ``number`` on: the line after it, the old side, the new side."""
    old: list[str] = []
    new: list[str] = []
    last: list[list[str]] = []
    while number < len(lines):
        mark, rest = (lines[number][0], lines[number][1:]) if lines[number] != "\n" else (" ", "\n")
        if mark == "\\":  # "\ No newline at end of file" takes it from the line before
            for side in last:
                side[-1] = side[-1].rstrip("\n")
        elif [len(old), len(new)] == counts or mark not in " -+":
            break
        else:
            last = {" ": [old, new], "-": [old], "+": [new]}[mark]
            for side in last:
                side.append(rest)
        number += 1
    return number, old, new


def _find(lines: list[str], old: list[str], wanted: int, floor: int) -> int | None:
    """Where the old lines are: at the wanted place, or at the only other one."""
    if wanted >= floor and lines[wanted : wanted + len(old)] == old:
        return wanted
    if not old:
        return None
    places = [n for n in range(floor, len(lines) - len(old) + 1) if lines[n : n + len(old)] == old]
    return places[0] if len(places) == 1 else None


def _first_difference(lines: list[str], old: list[str], wanted: int) -> str:
    for at, line in enumerate(old, wanted):
        have = lines[at].strip() if 0 <= at < len(lines) else "the end of the file"
        if have != line.strip():
            return f":{at + 1}: expected {line.strip()!r}, found {have!r}"
    return f":{wanted + 1}"

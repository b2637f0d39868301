"""What a look at the machine has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    """Nothing is in the way, but it is worth knowing."""
    BAD = "bad"
    """Something is in the way of a study, and has to be mended."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What was looked at, in a word or two.
        level: How much it matters.
        said: What was found.
        mend: What to do about it; None where nothing is to be done.
    """

    check: str
    level: Level
    said: str
    mend: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The finding as JSON-ready data."""
        return {**asdict(self), "level": str(self.level)}


def ok(check: str, said: str) -> Finding:
    """A finding that all is well."""
    return Finding(check, Level.OK, said)


def note(check: str, said: str, mend: str | None = None) -> Finding:
    """A finding that is worth knowing."""
    return Finding(check, Level.NOTE, said, mend)


def bad(check: str, said: str, mend: str) -> Finding:
    """A finding that has to be mended."""
    return Finding(check, Level.BAD, said, mend)


def well(findings: Sequence[Finding]) -> bool:
    """Whether nothing has to be mended."""
    return all(each.level is not Level.BAD for each in findings)

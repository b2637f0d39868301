"""The table of mistakes that people make in a search space, with what is said about each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).parent.parent / "data" / "spec" / "mistakes.txt"


@dataclass(frozen=True)
class Mistake:
    """One mistake.

    Attributes:
        text: The search space; the sections that it lacks are to be filled in.
        said: The loader's sentence, from the line on.
        seen: Whether an editor with the schema marks it, too.
    """

    text: str
    said: str
    seen: bool

    def __str__(self) -> str:
        return self.said[:60]


def mistakes() -> list[Mistake]:
    """All of the table."""
    _, *blocks = TABLE.read_text(encoding="utf-8").split("====\n")
    found = (re.fullmatch(r"(.*)\n(>>>?) (.*)\n", block, re.DOTALL) for block in blocks)
    return [Mistake(one[1], one[3], one[2] == ">>>") for one in found if one is not None]

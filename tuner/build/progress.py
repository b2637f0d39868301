"""What a build says while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One word of a build.

    Attributes:
        step: The step in hand; ``waiting`` while another build of the same engine goes on.
        number: Which step it is, from 1; 0 while waiting.
        total: How many there are.
        line: The last line that the step printed.
    """

    step: str
    number: int
    total: int
    line: str


Report = Callable[[Progress], None]
"""Called several times a second while a build goes on; what it raises ends the build."""


def silent(_progress: Progress) -> None:
    """A report that nobody hears."""

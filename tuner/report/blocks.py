"""What a report is made of: headings, paragraphs, tables, pictures.

The sections say what is to be said in these, once; Markdown and HTML are two ways to write them
down. Text in a block is plain text: how it is kept from being markup is the writers' business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tuner.report.svg import Svg

Style = Literal["plain", "strong", "code"]
Tone = Literal["plain", "good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of text in one style."""

    text: str
    style: Style = "plain"


Words = tuple[Run, ...]
"""A line of text."""


def strong(text: str) -> Run:
    """Text that stands out."""
    return Run(text, "strong")


def code(text: str) -> Run:
    """Text as a machine reads it: a name, a value, a command."""
    return Run(text, "code")


def words(*parts: str | Run) -> Words:
    """A line of text from its pieces."""
    return tuple(Run(part) if isinstance(part, str) else part for part in parts)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the report's own."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph.

    Attributes:
        words: Its text.
        tone: How it is meant, for a writer that has colours.
    """

    words: Words
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        head: The columns' names; empty names are fine.
        rows: Lines of cells, each as long as the head.
        numeric: Places of the columns that hold numbers.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Code:
    """Lines as they are: a command, a log."""

    text: str
    language: str = "text"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture.

    Attributes:
        name: A plain name; its file is called so.
        svg: The picture.
        says: What it shows, in a sentence for those who do not see it.
    """

    name: str
    svg: Svg
    says: str


Block = Heading | Paragraph | Bullets | Table | Code | Picture


def paragraph(*parts: str | Run, tone: Tone = "plain") -> Paragraph:
    """A paragraph from its pieces."""
    return Paragraph(words(*parts), tone)


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str | Run | Words]],
    numeric: Sequence[int] = (),
) -> Table:
    """A table whose cells may be plain text."""
    return Table(
        tuple(head), tuple(tuple(_cell(c) for c in row) for row in rows), frozenset(numeric)
    )


def _cell(given: str | Run | Words) -> Words:
    if isinstance(given, tuple):
        return given
    return words(given)

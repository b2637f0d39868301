"""A report as Markdown, with its pictures in files beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.report.blocks import Block, Bullets, Code, Heading, Paragraph, Picture, Run, Table, Words
from tuner.report.story import picture_file
from tuner.report.text import clean, one_line

_MARKS = re.compile(r"([\\`*_{}\[\]<>|~&#!])")
_LINE_MARKS = re.compile(r"^(\s*)([-+=]|\d+[.)])")


def markdown(blocks: Sequence[Block]) -> str:
    """The text of a report."""
    return "\n\n".join(_block(block) for block in blocks) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {escape(one_line(block.text))}"
        case Paragraph():
            return _words(block.words)
        case Bullets():
            return "\n".join(f"- {_words(item)}" for item in block.items)
        case Table():
            return _table(block)
        case Code():
            return _code(block)
        case Picture():
            return f"![{escape(one_line(block.says))}]({picture_file(block)})"


def _words(words: Words) -> str:
    text = "".join(_run(run) for run in words).strip()
    return _LINE_MARKS.sub(r"\1\\\2", text)


def _run(run: Run, *, cell: bool = False) -> str:
    text = one_line(run.text)
    if not text:
        return " " if run.text else ""
    lead = " " if run.text[:1].isspace() else ""
    end = " " if run.text[-1:].isspace() else ""
    if run.style == "code":
        return lead + _span(text, cell=cell) + end
    plain = escape(text)
    return lead + (f"**{plain}**" if run.style == "strong" else plain) + end


def escape(text: str) -> str:
    """Text whose marks are text: it can begin no markup and no HTML."""
    return _MARKS.sub(r"\\\1", text)


def _span(text: str, *, cell: bool) -> str:
    """Text in code style, in a fence longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    room = " " if text.startswith("`") or text.endswith("`") else ""
    # Within a table's row a bar ends the cell, also in code; the tables' own escape is a backslash.
    inside = text.replace("|", "\\|") if cell else text
    return f"{fence}{room}{inside}{room}{fence}"


def _code(block: Code) -> str:
    text = clean(block.text, longest=200_000)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{block.language}\n{text}\n{fence}"


def _table(table: Table) -> str:
    lines = [
        _row([escape(one_line(name)) for name in table.head]),
        "|"
        + "|".join("---:" if n in table.numeric else "---" for n in range(len(table.head)))
        + "|",
    ]
    lines += [
        _row(["".join(_run(r, cell=True) for r in cell) for cell in row]) for row in table.rows
    ]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

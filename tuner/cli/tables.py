"""Tables of studies and trials for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tuner.cli.view import say
from tuner.quantity import format_seconds
from tuner.score.table import number

_GOOD = {
    "healthy": "green",
    "held_on_level": "cyan",
    "cancelled": "yellow",
    "interrupted": "yellow",
}


class TrialsTable:
    """Every trial with what differs from the baseline, its score, its figures and its verdict.

    On a narrow screen the point stands below its trial, since its names would be torn apart in a
    column of their own.

    Args:
        trials: The trials, as the API lists them.
        winner: Number of the one to deploy, where that was decided.
    """

    def __init__(self, trials: Sequence[dict[str, Any]], *, winner: int | None = None) -> None:
        self._trials = trials
        self._winner = winner
        scores = (t["score"] for t in trials if t["feasible"] and t["score"])
        self._best = max(scores, default=None)
        self._base: dict[str, Any] = next(
            (t["params"] for t in trials if t["origin"] == "baseline"), {}
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _WIDE:
            yield self._beside()
        else:
            yield from self._below(options.max_width)

    def _cells(self, trial: dict[str, Any]) -> list[str]:
        score = "" if trial["score"] is None else number(trial["score"])
        top = trial["score"] is not None and trial["score"] == self._best
        return [
            f"{trial['trial']}{' ◀' if trial['trial'] == self._winner else ''}",
            f"[bold green]{score}[/]" if top else score,
            _figure(trial.get("output_tps")),
            _figure(trial.get("ttft_p90_s")),
            format_seconds(trial["seconds"]) if trial["attempt"] else "",
        ]

    def _beside(self) -> Table:
        table = Table(header_style="bold", pad_edge=False)
        for name in (*_HEAD, "point", "verdict"):
            right = name in _HEAD
            table.add_column(
                name, justify="right" if right else "left", overflow="fold", no_wrap=right
            )
        for trial in self._trials:
            point = escape(point_text(trial, self._base))
            table.add_row(*self._cells(trial), point, verdict_text(trial))
        return table

    def _below(self, width: int) -> Iterator[Text]:
        rows = [[Text.from_markup(cell) for cell in self._cells(t)] for t in self._trials]
        head = [Text(name, "bold") for name in _HEAD]
        sizes = [max(row[i].cell_len for row in (head, *rows)) for i in range(len(head))]
        yield _line([*head, Text("verdict", "bold")], sizes)
        for trial, row in zip(self._trials, rows, strict=True):
            verdict, *more = verdict_parts(trial)
            yield _line([*row, Text.from_markup(verdict)], sizes)
            notes = [*map(Text.from_markup, more), Text(point_text(trial, self._base), "dim")]
            for note in notes:
                yield from _indented(note, width)


_WIDE = 120
"""Columns of a screen on which a point has room beside its trial."""
_HEAD = ("trial", "score", "tok/s", "TTFT P90 s", "time")
_INDENT = "    "


def _figure(value: float | None) -> str:
    return "" if value is None else number(value)


def _line(cells: Sequence[Text], sizes: Sequence[int]) -> Text:
    """A row: all cells but the last to the right, each in its width."""
    *numbers, last = cells
    line = Text()
    for cell, size in zip(numbers, sizes, strict=True):
        line.append(" " * (size - cell.cell_len)).append_text(cell).append("  ")
    return line.append_text(last)


def _indented(note: Text, width: int) -> Iterator[Text]:
    """A note below a row, broken between words, and inside of one only where it is longer than a line."""
    room = max(width - len(_INDENT), 1)
    for line in textwrap.wrap(note.plain, room, break_on_hyphens=False):
        yield Text(_INDENT + line, note.spans[0].style if note.spans else note.style)


def point_text(trial: dict[str, Any], base: dict[str, Any]) -> str:
    """What the trial's point is, by its difference from the baseline."""
    params = trial["params"]
    if trial["origin"] == "baseline":
        return "baseline: " + " ".join(f"{k}={say(v)}" for k, v in params.items())
    changed = [f"{k}={say(v)}" for k, v in params.items() if k not in base or base[k] != v]
    gone = [f"no {k}" for k in base if k not in params]
    text = " ".join(changed + gone) or "as the baseline"
    again = {"repeat": "again", "profile": "profile of"}.get(trial["origin"])
    return f"{again} {trial['repeats']}: {text}" if again else text


def verdict_text(trial: dict[str, Any]) -> str:
    """The verdict, coloured, with the gates that failed."""
    return ("; " if trial.get("history") else " ").join(verdict_parts(trial))


def verdict_parts(trial: dict[str, Any]) -> list[str]:
    """The verdict, coloured, and what is to be said with it."""
    if trial["verdict"] is None:
        return [f"[yellow]{trial['stage']}[/]"]
    if trial.get("history"):
        return [f"[dim]{trial['verdict']}[/]", f"[dim]{escape(trial['history'])}[/]"]
    text = f"[{_GOOD.get(trial['verdict'], 'red')}]{trial['verdict']}[/]"
    if trial.get("level"):
        text += f" {escape(trial['level'])}"
    missed = [f"[red]misses {', '.join(trial['missed'])}[/]"] if trial["missed"] else []
    return [text, *missed]


def levels_table(rows: Sequence[dict[str, Any]]) -> Table:
    """How far each cheaper level agrees with the real one, as this study found.

    Args:
        rows: One a level, the real one last.
    """
    table = Table(header_style="bold", pad_edge=False)
    for name in LEVEL_HEAD:
        left = name in {"level", "standing"}
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(escape(text) for text in level_texts(row)))
    return table


LEVEL_HEAD = ("level", "load", "measured", "held", "bias", "tau-b", "pairs", "standing")


def level_texts(row: dict[str, Any]) -> tuple[str, ...]:
    """A level's row, a text a column; what a level cannot have or has not shown is empty."""
    bias, spread = row.get("bias"), row.get("spread")
    off = "" if bias is None else f"{bias:.3g}"
    off += "" if bias is None or spread is None else f" ± {spread:.0%}"
    retired = row.get("retired_because")
    standing = f"retired: {retired}" if retired else row.get("standing", "the real one")
    return (
        row["level"],
        format_seconds(row["cost"]) if row["cost"] else "",
        str(row["points"]),
        str(row["held"]) if "tau" in row else "",
        off,
        f"{row['tau']:.2f}" if row.get("pairs") else "",
        str(row["pairs"]) if "pairs" in row else "",
        standing,
    )

"""Tables of studies and trials for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from tuner.cli.view import say
from tuner.quantity import format_seconds

_GOOD = {
    "healthy": "green",
    "held_on_level": "cyan",
    "cancelled": "yellow",
    "interrupted": "yellow",
}


def trials_table(trials: Sequence[dict[str, Any]], *, winner: int | None = None) -> Table:
    """Every trial with what differs from the baseline, its score and its verdict.

    Args:
        trials: The trials, as the API lists them.
        winner: Number of the one to deploy, where that was decided.
    """
    base: dict[str, Any] = next((t["params"] for t in trials if t["origin"] == "baseline"), {})
    best = max((t["score"] for t in trials if t["feasible"] and t["score"]), default=None)
    table = Table(header_style="bold", pad_edge=False)
    for name in ("trial", "point", "score", "time", "verdict"):
        right = name in {"trial", "score", "time"}
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for trial in trials:
        score = "" if trial["score"] is None else f"{trial['score']:,.0f}"
        top = trial["score"] is not None and trial["score"] == best
        table.add_row(
            f"{trial['trial']}{' ◀' if trial['trial'] == winner else ''}",
            escape(point_text(trial, base)),
            f"[bold green]{score}[/]" if top else score,
            format_seconds(trial["seconds"]) if trial["attempt"] else "",
            verdict_text(trial),
        )
    return table


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
    if trial["verdict"] is None:
        return f"[yellow]{trial['stage']}[/]"
    if trial.get("history"):
        return f"[dim]{trial['verdict']}; {escape(trial['history'])}[/]"
    text = f"[{_GOOD.get(trial['verdict'], 'red')}]{trial['verdict']}[/]"
    if trial.get("level"):
        text += f" {escape(trial['level'])}"
    return f"{text} [red]misses {', '.join(trial['missed'])}[/]" if trial["missed"] else text


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

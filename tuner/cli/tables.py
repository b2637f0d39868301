"""Tables of studies and trials for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tuner.cli.view import say
from tuner.quantity import format_seconds
from tuner.store.rows import Origin, Transition, TrialRow
from tuner.trial.budget import engine_seconds
from tuner.trial.summary import failed_gates

_WORDS = {"point", "verdict"}
_GOOD = {"healthy": "green", "cancelled": "yellow", "interrupted": "yellow"}


def trials_table(
    trials: Sequence[TrialRow], steps: Sequence[Transition], *, winner: int | None = None
) -> Table:
    """Every trial with what differs from the baseline, its score and its verdict."""
    base = next((t.params for t in trials if t.origin is Origin.BASELINE), {})
    best = max((t.score for t in trials if t.feasible and t.score is not None), default=None)
    table = Table(header_style="bold", pad_edge=False)
    for name, kind in (
        ("trial", "right"),
        ("point", "left"),
        ("score", "right"),
        ("time", "right"),
        ("verdict", "left"),
    ):
        table.add_column(name, justify="right" if kind == "right" else "left", overflow="fold")
    for trial in trials:
        mine = [s for s in steps if s.number == trial.number]
        mark = " ◀" if trial.number == winner else ""
        score = "" if trial.score is None else f"{trial.score:,.0f}"
        style = "bold green" if trial.score is not None and trial.score == best else ""
        table.add_row(
            f"{trial.number}{mark}",
            point_text(trial, base),
            f"[{style}]{score}[/]" if style else score,
            format_seconds(engine_seconds(mine)) if trial.launched else "",
            verdict_text(trial),
        )
    return table


def point_text(trial: TrialRow, base: dict[str, Any]) -> str:
    """What the trial's point is, by its difference from the baseline."""
    if trial.origin is Origin.BASELINE:
        return "baseline: " + " ".join(f"{k}={say(v)}" for k, v in trial.params.items())
    changed = [f"{k}={say(v)}" for k, v in trial.params.items() if k not in base or base[k] != v]
    gone = [f"no {k}" for k in base if k not in trial.params]
    text = " ".join(changed + gone) or "as the baseline"
    return f"again {trial.repeats}: {text}" if trial.origin is Origin.REPEAT else text


def verdict_text(trial: TrialRow) -> str:
    """The verdict, coloured, with the gates that failed."""
    if trial.verdict is None:
        return f"[yellow]{trial.stage}[/]"
    text = f"[{_GOOD.get(trial.verdict, 'red')}]{trial.verdict}[/]"
    missed = failed_gates(trial)
    return f"{text} [red]misses {', '.join(missed)}[/]" if missed else text


def print_table(table: Table, console: Console) -> None:
    """Print a table; wide enough for its content where nobody looks at a screen."""
    console.print(table)

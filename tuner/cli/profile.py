"""``tuner profile``: where the steps of a trial's engine spend their time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.arguments import DecidedTrial, StudyName

if TYPE_CHECKING:
    from tuner.store.rows import TrialRow


def profile(
    context: typer.Context,
    study: StudyName,
    trial: DecidedTrial = None,
    again: Annotated[
        bool, typer.Option("--again", help="Run it once more although it was profiled.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show where a trial's steps spend their time, by one more run.

    The run is never scored, teaches the search nothing, and is never exported. What was stopped goes on; a
    trial that was profiled is not run again. The study's report gets the table and a picture.

    Example: tuner profile local-cpu --trial 7
    """
    from rich.console import Console

    from tuner.cli.finish import shown
    from tuner.cli.ledgers import beside
    from tuner.cli.live import watching, wide_console
    from tuner.cli.view import StudyView
    from tuner.trial.deliver import write_report
    from tuner.trial.profiling import profile_trial, profiled_number, stages_of
    from tuner.trial.session import borrow, stop_on_signals
    from tuner.trial.wishes import Wishes

    wishes = Wishes()
    console = Console(stderr=True, emoji=False) if as_json else wide_console()
    with beside(context.obj) as ledger:
        row = ledger.study(study)
        number = profiled_number(ledger, row, trial)
        view = StudyView(f"{study}: profile of {number}")
        with stop_on_signals(wishes.cancelled), watching(view, console) as watcher:
            run = borrow(
                ledger,
                row,
                lambda ready: profile_trial(ready, number, anew=again),
                watchers=[watcher],
                wishes=wishes,
            )
        if run is None:
            typer.echo(f"stopped; go on with: tuner profile {study} --trial {number}", err=True)
            raise typer.Exit(1)
        report = write_report(ledger, ledger.study(study))
    found = stages_of(run)
    if as_json:
        data = {"study": study, "trial": number, "run": run.number, "verdict": run.verdict}
        typer.echo(json.dumps({**data, "profile": found}, indent=2))
    else:
        for line in _said(run, number, found):
            typer.echo(line)
        typer.echo(f"\nthe report: {shown(report)}")
    if not found:
        raise typer.Exit(1)


def _said(run: TrialRow, number: int, found: Mapping[str, Any]) -> list[str]:
    head = f"trial {number}, profiled in trial {run.number}: {run.verdict}"
    if found:
        return [head, *profile_lines(found)]
    why = "its engine printed no profile; `tuner logs` shows what it did print"
    return [head, why if run.verdict == "healthy" else "it found nothing"]


def profile_lines(found: Mapping[str, Any]) -> list[str]:
    """A profile for people: for each kind of step a table of its stages."""
    from tuner.report.sections.profile import HEAD, KINDS, stage_rows, summary

    lines: list[str] = []
    for kind in KINDS:
        if not found.get(kind):
            continue
        rows = [list(HEAD), *(row.cells() for row in stage_rows(found[kind]))]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
        lines += ["", summary(kind, found[kind])]
        for name, *figures in rows:
            cells = [f.rjust(w) for f, w in zip(figures, widths[1:], strict=True)]
            lines.append("  " + "  ".join([name.ljust(widths[0]), *cells]))
    return lines

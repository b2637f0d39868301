"""``tuner compare``: two trials against each other, in pairs, with an interval."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.arguments import StudyName
from tuner.cli.complete import trial_numbers

if TYPE_CHECKING:
    from tuner.trial.comparison import Result


def compare(
    context: typer.Context,
    study: StudyName,
    a: Annotated[
        int,
        typer.Argument(
            help="The trial that is the measure.", metavar="A", min=0, autocompletion=trial_numbers
        ),
    ],
    b: Annotated[
        int,
        typer.Argument(
            help="The trial that is held to it.", metavar="B", min=0, autocompletion=trial_numbers
        ),
    ],
    rounds: Annotated[
        int, typer.Option(min=1, max=100, help="Rounds of A-B-B-A, those made before included.")
    ] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure two trials against each other, in turns.

    Rounds of A-B-B-A, with a restart before each run.

    What was stopped goes on; with more rounds than before only the new ones are run.

    Example: tuner compare local-cpu 0 7 --rounds 3
    """
    from rich.console import Console

    from tuner.cli.ledgers import beside
    from tuner.cli.live import watching, wide_console
    from tuner.cli.view import StudyView
    from tuner.trial.comparison import pair_of, run_comparison
    from tuner.trial.context import Study
    from tuner.trial.session import borrow, stop_on_signals
    from tuner.trial.wishes import Wishes

    wishes = Wishes()
    console = Console(stderr=True, emoji=False) if as_json else wide_console()
    with beside(context.obj) as ledger:
        row = ledger.study(study)
        pair = pair_of(ledger, row, a, b)

        def job(ready: Study) -> Result:
            return run_comparison(ready, pair, rounds)

        view = StudyView(f"{study}: {pair.b} against {pair.a}")
        with stop_on_signals(wishes.cancelled), watching(view, console) as watcher:
            found = borrow(ledger, row, job, watchers=[watcher], wishes=wishes)
    if found is None:
        raise typer.Exit(1)
    if as_json:
        typer.echo(json.dumps({"study": study, **found.as_json()}, indent=2))
    else:
        for line in lines(found, rounds):
            typer.echo(line)
    if found.comparison is None or (wishes.cancelled.is_set() and found.rounds < rounds):
        raise typer.Exit(1)


def lines(found: Result, rounds: int) -> list[str]:
    """A comparison for people."""
    pair, compared = found.pair, found.comparison
    said = [
        f"trial {pair.b} (B) against trial {pair.a} (A), {found.rounds} of {rounds} rounds of A-B-B-A",
        "scores: " + "  ".join(f"{run.arm} {run.value:,.0f}" for run in found.runs),
    ]
    said += [f"failed: {words}" for words in found.failed]
    if compared is None:
        return [*said, "nothing can be compared yet: no round is whole"]
    drift = compared.drift
    moved = "clearly" if drift.clear else "not clearly"
    return [
        *said,
        f"B over A: {compared}",
        f"noise of one run {compared.sigma:.1%}; A itself moved by {drift.change:+.1%}, {moved}",
    ]

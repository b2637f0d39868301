"""``tuner run`` and ``tuner resume``: work on a study and show it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tuner.store.ledger import Ledger


def run(
    context: typer.Context,
    space: Annotated[Path, typer.Argument(help="The search space.", metavar="SPACE")],
    trials: Annotated[
        int | None, typer.Option(min=1, help="Most trials, in place of the space's own budget.")
    ] = None,
) -> None:
    """Tune: build the engine if it is new, search, measure the best again, write the winner.

    Example: tuner run search_spaces/local_cpu.yaml
    """
    from tuner.spec import load_space
    from tuner.store.ledger import Ledger
    from tuner.trial.admission import check_port, check_targets
    from tuner.trial.session import enter_study

    wanted = load_space(space)
    check_targets(wanted)
    check_port(wanted)
    with Ledger(context.obj, write=True) as ledger:
        row = enter_study(ledger, wanted, space)
        _work(ledger, row.name, trials)


def resume(
    context: typer.Context,
    study: Annotated[str, typer.Argument(help="The study's name.", metavar="STUDY")],
    trials: Annotated[
        int | None, typer.Option(min=1, help="Most trials, in place of the space's own budget.")
    ] = None,
) -> None:
    """Go on with a study that was stopped, killed or interrupted.

    Example: tuner resume local-cpu
    """
    from tuner.store.ledger import Ledger

    with Ledger(context.obj, write=True) as ledger:
        _work(ledger, study, trials)


def _work(ledger: Ledger, name: str, trials: int | None) -> None:
    from tuner.cli.finish import finish
    from tuner.cli.live import watching, wide_console
    from tuner.cli.view import StudyView, limits
    from tuner.trial.session import stop_on_signals, stored_space, work

    row = ledger.study(name)
    console = wide_console()
    view = StudyView(name, budget=limits(stored_space(ledger, row), trials))
    cancelled = threading.Event()
    with stop_on_signals(cancelled), watching(view, console) as watcher:
        decision = work(ledger, row, watchers=[watcher], cancelled=cancelled, trials=trials)
    if decision is None:
        console.print(f"stopped; go on with: tuner resume {name}")
        raise typer.Exit(0)
    finish(ledger, row, decision, console)

"""``tuner export`` and ``tuner report``: the files of a study, written again or elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    context: typer.Context,
    study: Annotated[str, typer.Argument(help="The study's name.", metavar="STUDY")],
    trial: Annotated[
        int | None, typer.Option(min=0, help="The trial; without it, the one that was decided for.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write into.", metavar="DIR")] = None,
) -> None:
    """Write the deployment of a trial as computility-run.yaml, and beside it where it comes from.

    Example: tuner export local-cpu --trial 7 --out /tmp/try
    """
    from tuner.cli.finish import shown
    from tuner.errors import UserError
    from tuner.store.ledger import Ledger
    from tuner.trial.deliver import decided, deliver

    with Ledger(context.obj, write=False) as ledger:
        row = ledger.study(study)
        decision = decided(ledger, row)
        if trial is None and decision is None:
            raise UserError(
                f"study {study} has not decided on a trial yet", mend="name one with --trial"
            )
        number = trial if trial is not None else int((decision or {})["winner"])
        typer.echo(shown(deliver(ledger, row, number, folder=out)))


def report(
    context: typer.Context,
    study: Annotated[str, typer.Argument(help="The study's name.", metavar="STUDY")],
    out: Annotated[Path | None, typer.Option(help="Folder to write into.", metavar="DIR")] = None,
) -> None:
    """Write the report of a study.

    Example: tuner report local-cpu --out /tmp/report
    """
    from tuner.cli.finish import shown
    from tuner.store.ledger import Ledger
    from tuner.trial.deliver import write_report

    with Ledger(context.obj, write=False) as ledger:
        typer.echo(shown(write_report(ledger, ledger.study(study), folder=out)))

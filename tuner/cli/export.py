"""``tuner export`` and ``tuner report``: the files of a study, written again or elsewhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.arguments import DecidedTrial, StudyName


class Format(StrEnum):
    """The forms of an export, as they are named on the command line."""

    PLATFORM = "computility-run"
    COMPOSE = "compose"
    SYSTEMD = "systemd"
    KUBERNETES = "kubernetes"
    SHELL = "shell"


def export(
    context: typer.Context,
    study: StudyName,
    trial: DecidedTrial = None,
    form: Annotated[
        Format, typer.Option("--format", help="What the deployment is written as.")
    ] = Format.PLATFORM,
    image: Annotated[
        str | None,
        typer.Option(help="The image's name where it is deployed; the engine's own without it."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write into.", metavar="DIR")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also write a trial that never was healthy.")
    ] = False,
) -> None:
    """Write the deployment of a trial, with where it comes from.

    A trial that never was healthy is refused without --force; one that missed its gates is written,
    and said to be such.

    Example: tuner export local-cpu --trial 7 --format shell --out /tmp/try
    """
    from tuner.cli.finish import shown
    from tuner.daemon.client import Client
    from tuner.store.ledger import Ledger
    from tuner.trial.deliver import export_folder, write_files
    from tuner.trial.entry import stored_space

    with Client(context.obj) as client:
        asked = {"trial": trial, "format": form.value, "image": image, "force": force}
        found = client.get(f"/v1/studies/{study}/export", **asked)
    if found["doubt"]:
        mend = f"see `tuner show {study} {found['trial']}`"
        typer.echo(f"tuner: {found['doubt']}; {mend}", err=True)
    if out is None:
        with Ledger(context.obj, write=False) as ledger:
            row = ledger.study(study)
            out = export_folder(stored_space(ledger, row), row)
    typer.echo(shown(write_files(out, found["files"])))


def report(
    context: typer.Context,
    study: StudyName,
    out: Annotated[Path | None, typer.Option(help="Folder to write into.", metavar="DIR")] = None,
) -> None:
    """Write the report of a study.

    Example: tuner report local-cpu --out /tmp/report
    """
    from tuner.cli.finish import shown
    from tuner.daemon.client import Client
    from tuner.trial.deliver import write_files

    with Client(context.obj) as client:
        files = client.get(f"/v1/studies/{study}/report")
    typer.echo(shown(write_files(out or context.obj / "studies" / study, files)))

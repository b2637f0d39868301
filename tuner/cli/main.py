"""The command ``tuner``: what it knows, and how its errors reach people."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner import __version__
from tuner.errors import TunerError, last_words, ungrouped

app = typer.Typer(
    name="tuner",
    help="Find, safely and believably, the best way to deploy a large language model on what you have.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tuner {__version__}")
        raise typer.Exit


@app.callback()
def common(
    context: typer.Context,
    state: Annotated[
        Path | None,
        typer.Option(
            help="State folder. Default: $TUNER_STATE, ./state in a checkout, else the user's.",
            metavar="DIR",
        ),
    ] = None,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """What all commands share."""
    from tuner.paths import check_state, state_dir

    context.obj = state_dir(state)
    check_state(context.obj)


def run() -> None:
    """Run the command line; a mistake of the user's prints one line and no traceback."""
    from tuner.cli import register

    # Our problems are small: threads would only slow them, and disturb an engine that is measured.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    register.commands(app)
    try:
        with ungrouped():
            app()
    except TunerError as error:
        print(last_words(error), file=sys.stderr)  # noqa: T201 - the last word of a command
        sys.exit(error.exit_code)

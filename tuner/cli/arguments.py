"""Arguments that several commands take in the same way."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli.complete import study_names, trial_numbers

StudyName = Annotated[
    str, typer.Argument(help="The study's name.", metavar="STUDY", autocompletion=study_names)
]
DecidedTrial = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="The trial; without it, the one that was decided for.",
        autocompletion=trial_numbers,
    ),
]
"""A trial that may be left out, and is the winner then."""

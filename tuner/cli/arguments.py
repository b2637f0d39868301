"""Arguments that several commands take in the same way."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli.complete import study_names, trial_numbers


def _duration(text: str) -> float:
    """Seconds in what a person wrote for a limit."""
    from tuner.quantity import parse_seconds

    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not 0 < seconds <= _LONGEST:
        raise typer.BadParameter(f"{text!r} is no time that a study can take")
    return seconds


_LONGEST = 1e9

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

MostTrials = Annotated[
    int | None,
    typer.Option("--trials", min=1, help="Most trials, in place of the space's own budget."),
]
MostWall = Annotated[
    float | None,
    typer.Option(
        "--wall",
        parser=_duration,
        metavar="TIME",
        help="Most wall time of the search, as in 90s or 1h30m, in place of the space's own.",
    ),
]
MostEngine = Annotated[
    float | None,
    typer.Option(
        "--engine",
        parser=_duration,
        metavar="TIME",
        help="Most time of the search with an engine up, in place of the space's own.",
    ),
]


def limits_given(trials: int | None, wall: float | None, engine: float | None) -> dict[str, float]:
    """The limits that a command was given, by kind."""
    asked = {"trials": trials, "wall": wall, "engine": engine}
    return {name: limit for name, limit in asked.items() if limit is not None}

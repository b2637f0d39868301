"""``tuner validate``: the strict check of a search space, and what it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tuner.spec import Context, SearchSpace
    from tuner.trial.inquiry import Inquiry


def validate(
    space: Annotated[Path, typer.Argument(help="The search space.", metavar="SPACE")],
    points: Annotated[
        int, typer.Option(min=0, max=1000, help="How many more points to show the commands of.")
    ] = 3,
    ask: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            metavar="N",
            help="Ask the engine itself about so many points. It is built if it is not there.",
        ),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Check a search space, and print all that it would start.

    That is the whole space, every rule, and the exact commands of the baseline and of a few points.
    With --ask the engine's own parser and checks say which points it would refuse, and why; nothing
    is started, and of memory they say nothing.

    Example: tuner validate search_spaces/local_cpu.yaml --ask 200
    """
    from tuner.spec import load_space
    from tuner.telemetry.detect import detect
    from tuner.telemetry.hardware import detect_hardware
    from tuner.trial import inquiry
    from tuner.trial.admission import check_targets
    from tuner.trial.preview import as_json as json_of
    from tuner.trial.preview import as_lines
    from tuner.trial.session import context_of

    found = load_space(space, any_version=True)
    check_targets(found)
    source = detect().source
    try:
        context = context_of(found, detect_hardware(source))
    finally:
        source.close()
    if as_json:
        import json

        data = json_of(found, context, count=points)
        if ask:
            data["engine"] = inquiry.as_json(_inquire(found, context, ask))
        typer.echo(json.dumps(data, indent=2, allow_nan=False))
        return
    for line in as_lines(found, context, count=points):
        typer.echo(line)
    if ask:
        for line in inquiry.as_lines(_inquire(found, context, ask)):
            typer.echo(line)


def _inquire(space: SearchSpace, context: Context, count: int) -> Inquiry:
    """What the engine says, with a sign of life while a person waits."""
    from rich.console import Console
    from rich.text import Text

    from tuner.trial.inquiry import inquire

    with Console(stderr=True).status(Text("asking the engine")):
        return inquire(space, context, count=count)

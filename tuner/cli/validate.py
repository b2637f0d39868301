"""``tuner validate``: the strict check of a search space, and what it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def validate(
    space: Annotated[Path, typer.Argument(help="The search space.", metavar="SPACE")],
    points: Annotated[
        int, typer.Option(min=0, max=1000, help="How many more points to show the commands of.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Check a search space, and print all that it would start.

    That is the whole space, every rule, and the exact commands of the baseline and of a few points.

    Example: tuner validate search_spaces/local_cpu.yaml
    """
    from tuner.spec import load_space
    from tuner.telemetry.detect import detect
    from tuner.telemetry.hardware import detect_hardware
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

        typer.echo(json.dumps(json_of(found, context, count=points), indent=2, allow_nan=False))
        return
    for line in as_lines(found, context, count=points):
        typer.echo(line)

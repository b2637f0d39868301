"""``tuner validate``: the strict check of a search space, and what it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def validate(
    space: Annotated[Path, typer.Argument(help="The search space.", metavar="SPACE")],
) -> None:
    """Check a search space and print it: parameters, rules, and the baseline's exact command.

    Example: tuner validate search_spaces/local_cpu.yaml
    """
    from tuner.spec import describe, load_space
    from tuner.telemetry.detect import detect
    from tuner.telemetry.hardware import detect_hardware
    from tuner.trial.session import context_of

    found = load_space(space, any_version=True)
    source = detect().source
    context = context_of(found, detect_hardware(source))
    source.close()
    for line in describe(found, context):
        typer.echo(line)

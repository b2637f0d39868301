"""``tuner surface``: what a study measured, in the form that searches are replayed on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.arguments import StudyName


def surface(
    context: typer.Context,
    study: StudyName,
    out: Annotated[Path, typer.Option(help="The file to write.", metavar="FILE")],
) -> None:
    """Write down all that a study measured as a surface.

    That is every point with its starts, its values on every level, and why it has none where it has
    none. Searches can be replayed on it without an engine. A study with the sampler grid and
    repeats records the whole of its space.

    Example: tuner surface my-study --out my_surface.jsonl
    """
    from tuner.errors import UserError
    from tuner.fidelity.surface import surface_of_study, write_surface
    from tuner.files import write_atomic
    from tuner.store.ledger import Ledger

    with Ledger(context.obj, write=False) as ledger:
        row = ledger.study(study)
        found = surface_of_study(row, ledger.trials(row.id), ledger.transitions(row.id))
    try:
        write_atomic(out, write_surface(found))
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", file=out) from error
    runs = sum(len(runs) for point in found.points.values() for runs in point.levels.values())
    without = sum(point.value(found.head.real) is None for point in found.points.values())
    typer.echo(
        f"{out}: {len(found.points)} points, {without} of them without a value, {runs} measurements"
    )

"""``tuner clean``: end what earlier engines have left, and lift the quarantine once all is back."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tuner.store.ledger import Ledger
    from tuner.trial.care.cleaning import Cleaned, Leftover, Lifted


def clean(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be ended.")
    ] = False,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept-baseline",
            help="Take what the devices hold now for what they hold at rest, as with a desktop on them.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """End what earlier runs have left, and lift the quarantine.

    What is ended is proven gone. Only engines that the ledger of the state folder has on record are
    found and ended, each process known by its identity and never by its name. Engines of a study that
    runs are left alone. Exits 1 when something could not be ended or stays in quarantine.

    Example: tuner clean --dry-run
    """
    from tuner.errors import UserError
    from tuner.launch.kinds import launchers
    from tuner.store.ledger import LEDGER_NAME
    from tuner.trial.care import cleaning

    if not (context.obj / LEDGER_NAME).exists():
        _refuse_a_wrong_folder(context)
        _print({"found": []}, ["nothing was run here yet, so nothing can be left"], as_json=as_json)
        return
    kinds = launchers()
    with _ledger(context.obj, write=not dry_run) as ledger:
        left = [each for each in cleaning.survey(ledger, kinds) if each.worker is None]
        there = [each for each in left if each.there]
        if dry_run or not as_json:
            _print({"found": [e.as_json() for e in there]}, _shown(there), as_json=as_json)
        if dry_run:
            return
        if there and not yes:
            if as_json or not sys.stdin.isatty():
                raise UserError(
                    "nobody can be asked here, so nothing was ended",
                    mend="look at `tuner clean --dry-run`, and then say `tuner clean --yes`",
                )
            typer.confirm("End them?", abort=True)
        cleaned = cleaning.clean(ledger, kinds, left)
        lifted, accepted = _devices(ledger, accept=accept)
    said = {
        "found": [each.as_json() for each in there],
        "ended": cleaned.ended,
        "released": lifted.released,
        "accepted": accepted,
        "kept": [*cleaned.kept, *(f"{name}: {why}" for name, why in lifted.kept.items())],
    }
    _print(said, _came_of_it(cleaned, lifted, accepted), as_json=as_json)
    raise typer.Exit(1 if said["kept"] else 0)


def _refuse_a_wrong_folder(context: typer.Context) -> None:
    """Refuse a folder that was named and in which no tuner ever worked: the engines are on record elsewhere.

    Raises:
        StateUnusable: Where a folder was named.
    """
    import os

    from tuner.errors import StateUnusable

    if context.find_root().params.get("state") is None and not os.environ.get("TUNER_STATE"):
        return
    there = (
        "no tuner has worked with this state folder" if context.obj.is_dir() else "it is not there"
    )
    raise StateUnusable(
        f"{there}, so nothing can be said of what is left",
        file=context.obj,
        mend="name the folder that the runs had with --state DIR or TUNER_STATE",
    )


def _ledger(state: Path, *, write: bool) -> Ledger:
    from tuner.cli.ledgers import beside
    from tuner.store.ledger import Ledger

    return beside(state) if write else Ledger(state, write=False)


def _devices(ledger: Ledger, *, accept: bool) -> tuple[Lifted, list[str]]:
    """Lift what is proven to be back; take what is held now for the baseline, where that is wanted."""
    from tuner.telemetry.detect import detect
    from tuner.trial.care import cleaning

    source = detect().source
    try:
        devices = source.devices()
        accepted = []
        if accept:
            rest = cleaning.accept_baseline(ledger, source, devices)
            accepted = [f"{d.name} {d.key}: {(d.used or 0) / 2**20:.0f} MiB" for d in rest.devices]
        return cleaning.lift(ledger, source, devices), accepted
    finally:
        source.close()


def _shown(there: Sequence[Leftover]) -> list[str]:
    if not there:
        return ["no engine of an earlier run is left"]
    lines = []
    for each in there:
        lines.append(each.title)
        lines += [f"  {process.words}" for process in each.processes]
        lines += [f"  {thing}" for thing in each.things]
        lines += [f"  {each.problem}"] if each.problem else []
    return lines


def _came_of_it(cleaned: Cleaned, lifted: Lifted, accepted: Sequence[str]) -> list[str]:
    lines = [f"ended: {each}" for each in cleaned.ended]
    lines += [f"holds at rest from now on: {each}" for each in accepted]
    lines += [f"out of quarantine: {name}" for name in lifted.released]
    lines += [f"NOT ended: {each}" for each in cleaned.kept]
    return lines + [f"still in quarantine: {name}: {why}" for name, why in lifted.kept.items()]


def _print(data: dict[str, Any], lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(data, indent=2))
        return
    for line in lines:
        typer.echo(line)

"""``tuner score``: what a file of records says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.errors import UserError

if TYPE_CHECKING:
    from tuner.score.columns import Columns
    from tuner.score.goodput import Limits


def score(
    file: Annotated[Path, typer.Argument(help="Records as JSON lines, or a CSV file.")],
    profile: Annotated[str, typer.Option(help="official, or none for no gates.")] = "official",
    wall: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[LOAD=]SECONDS",
            help="Wall time, where the file has no times; may be given for each load.",
        ),
    ] = None,
    planned: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[LOAD=]REQUESTS", help="Requests that were planned, where the file has fewer."
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=LIMIT",
            help="Limit for the goodput: ttft_s, tpot_s, e2e_s or output_tps; may be repeated.",
        ),
    ] = None,
    from_due: Annotated[
        bool,
        typer.Option(
            "--from-due",
            help="Latencies from when a request was due, as those of an open loop are taken.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute metrics, official score and gates from records.

    A file with several runs or workloads is scored load by load.

    Example: tuner score records.jsonl --json
    """
    from tuner.score.profile import PROFILES
    from tuner.score.summary import summarise
    from tuner.score.table import table

    chosen = PROFILES.get(profile)
    if chosen is None:
        raise UserError(f"no profile {profile!r}", mend=f"take one of {', '.join(PROFILES)}")
    limits = _limits(limit or ())
    loads = _read(file)
    walls = _by_load("--wall", wall or (), loads)
    plans = _by_load("--planned", planned or (), loads)
    summaries = {}
    for name, load in loads.items():
        requests = plans.get(name)
        if requests is not None and (requests < len(load) or requests != int(requests)):
            raise UserError(f"--planned {requests:g}: the file has {len(load)} requests", file=file)
        summaries[name] = summarise(
            load.since("scheduled" if from_due else "sent"),
            chosen,
            wall_s=walls.get(name),
            planned=None if requests is None else int(requests),
            limits=limits,
        )
    if as_json:
        found = {name: summary.as_json() for name, summary in summaries.items()}
        typer.echo(json.dumps({"file": str(file), "loads": found}, indent=1, allow_nan=False))
        return
    for index, (name, summary) in enumerate(summaries.items()):
        typer.echo(("\n\n" if index else "") + (f"{file}: {name}" if name else str(file)))
        typer.echo(table(summary))


def _read(file: Path) -> dict[str, Columns]:
    from tuner.score.reading import read_loads

    try:
        with file.open("rb") as lines:
            return read_loads(lines, file)
    except OSError as error:
        raise UserError(f"this file cannot be read: {error.strerror}", file=file) from error


def _limits(given: Sequence[str]) -> Limits | None:
    from dataclasses import fields

    from tuner.score.goodput import Limits

    if not given:
        return None
    known = [field.name for field in fields(Limits)]
    for what in (text.partition("=")[0] for text in given):
        if what not in known:
            raise UserError(
                f"--limit: there is no {what!r}", mend=f"take one of {', '.join(known)}"
            )
    try:
        return Limits(
            **{what: float(amount) for what, _, amount in (g.partition("=") for g in given)}
        )
    except ValueError as error:
        raise UserError(
            f"--limit {' '.join(given)}: {error}",
            mend="write ttft_s, tpot_s, e2e_s or output_tps and a number, as in --limit ttft_s=2",
        ) from error


def _by_load(option: str, given: Sequence[str], loads: dict[str, Columns]) -> dict[str, float]:
    """What an option says for each load; a bare number is for the only one."""
    found: dict[str, float] = {}
    for text in given:
        name, equals, amount = text.rpartition("=")
        if not equals and len(loads) > 1:
            raise UserError(
                f"{option} {text}: the file holds {len(loads)} loads ({', '.join(loads)})",
                mend=f"say which, as in {option} {next(iter(loads))}={text}",
            )
        name = name if equals else next(iter(loads))
        if name not in loads:
            raise UserError(f"{option} {text}: no load {name!r} ({', '.join(loads)})")
        try:
            value = float(amount)
        except ValueError:
            value = float("nan")
        if not 0 < value < float("inf"):
            raise UserError(f"{option} {text}: {amount!r} is not a number above 0")
        found[name] = value
    return found

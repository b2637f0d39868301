"""``tuner bench``: the load client on its own, against a server that runs already."""

from __future__ import annotations

import json
import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.load.bench import Sent
    from tuner.load.run import LoadResult
    from tuner.score.columns import Columns
    from tuner.score.summary import Summary


def bench(  # noqa: PLR0913, PLR0917 - one for each option
    url: Annotated[
        str, typer.Option(help="The server: http://127.0.0.1:PORT or unix:/path/to/socket.")
    ],
    workload: Annotated[
        Path, typer.Option(metavar="FILE", help="A workload, or several, as in a search space.")
    ],
    model: Annotated[
        str, typer.Option(help="The model's name in requests; else the first that is served.")
    ] = "",
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The model's folder, for a server without /tokenize; needs the extra `tokenizer`.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Runs of one name ask the same; by default each has a name of its own."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one JSON record a request.")
    ] = None,
    find_rate: Annotated[
        str | None,
        typer.Option(metavar="LOW,HIGH", help="Search the most conversations started a second."),
    ] = None,
    find_concurrency: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="Search the most conversations at once.")
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(metavar="FIGURE=LIMIT", help="What a load must hold, as ttft_p90_s=2."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Send a workload to a running server and say how it did.

    The warm-up is sent first and not counted. Exits 1 when a request failed. With --find-rate or
    --find-concurrency it searches the highest level at which every --gate holds, by halving; levels
    near the limit are measured up to 4 times. Exits 1 when not even the lowest holds.

    Example: tuner bench --url http://127.0.0.1:8000 --workload chat.yaml --out records.jsonl
    """
    from tuner.cli.find import found_json, gated, margin, one_of, search_of, words
    from tuner.load.bench import send_workloads
    from tuner.load.endpoint import Endpoint
    from tuner.load.find import find_load
    from tuner.load.workloads.file import read_workloads

    workloads = read_workloads(workload)
    endpoint = Endpoint.parse(url, model=model)
    salt = name or secrets.token_hex(8)
    if find_rate is not None or find_concurrency is not None or gate:
        search, gates = search_of(find_rate, find_concurrency, out), gated(gate or [])
        found = find_load(
            one_of(workloads),
            endpoint,
            search,
            partial(margin, gates),
            name=salt,
            folder=workload.parent,
            tokenizer=tokenizer,
        )
        typer.echo(json.dumps(found_json(found)) if as_json else words(found, search))
        raise typer.Exit(0 if found.level is not None else 1)
    sending = send_workloads(
        workloads, endpoint, name=salt, folder=workload.parent, tokenizer=tokenizer
    )
    _measure(sending, out, as_json=as_json)


def _measure(sending: Iterator[Sent], out: Path | None, *, as_json: bool) -> None:
    """Send all loads and say how they did; the file for their records is looked at first."""
    from tuner.errors import UserError
    from tuner.files import check_writable
    from tuner.load.store import write_records
    from tuner.score.profile import OFFICIAL
    from tuner.score.summary import summarise

    if out is not None:
        check_writable(out)
    loads = [
        (sent, summarise(_columns(sent.result), OFFICIAL, wall_s=sent.result.wall_s))
        for sent in sending
    ]
    records = [record for sent, _ in loads for record in sent.result.records]
    _print(loads, as_json=as_json)
    if out is not None:
        try:
            write_records(out, records)
        except OSError as wrong:
            raise UserError(f"cannot be written: {wrong.strerror}", file=out) from None
    if not all(record.ok for record in records):
        raise typer.Exit(1)


def _columns(result: LoadResult) -> Columns:
    from tuner.score.columns import from_records

    return from_records(result.records).since(result.since)


def _print(loads: list[tuple[Sent, Summary]], *, as_json: bool) -> None:
    from tuner.score.table import table

    if as_json:
        found = {sent.plan.workload: _as_json(sent, summary) for sent, summary in loads}
        typer.echo(json.dumps({"loads": found}, indent=1, allow_nan=False))
        return
    for sent, summary in loads:
        typer.echo(f"{sent.plan.workload}: {sent.plan.requests} requests")
        for row in sent.shape:
            typer.echo("  {:<44} {:>16} {:>16}".format(*row))
        typer.echo(table(summary))
        typer.echo(_counts(sent) + "\n")


def _as_json(sent: Sent, summary: Summary) -> dict[str, Any]:
    differences = None if sent.check is None else len(sent.check.differences)
    return {
        "fingerprint": sent.plan.fingerprint,
        "name": sent.result.salt,
        "started_at": sent.result.started_at,
        "ended_early": sent.result.ended_early,
        "client_cpu_s": sent.result.client_cpu_s,
        "token_counts_off": differences,
        "shape": [dict(zip(("what", "published", "own"), row, strict=True)) for row in sent.shape],
        **summary.as_json(),
    }


def _counts(sent: Sent) -> str:
    """What the check of the token counts found, in a sentence."""
    if sent.check is None:
        return "token counts: not checked, the server has no /tokenize"
    return f"token counts: {sent.check.words}"

"""``tuner verdict``: why an engine ended, from any vLLM log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer


def verdict_command(
    log: Annotated[
        str, typer.Argument(help="A log of a vLLM server, from anywhere; - reads standard input.")
    ],
    exit_code: Annotated[
        int | None,
        typer.Option(
            "--exit",
            metavar="CODE",
            help="How the server ended, if it is known: 1, 137, -9.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say why an engine ended as it did, from its log.

    With the lines that prove it, and what to do.

    Knows vLLM v0 and v1 and their forks, with or without the prefixes of journald, compose, docker
    and Kubernetes. Exits 0 whatever the verdict is: the question was answered.

    Example: tuner verdict server.log --exit 137 --json
    """
    from tuner.verdict import Evidence, ExitFacts, judge, read_log, render

    reading = read_log(_stdin() if log == "-" else _file(log))
    ended = None if exit_code is None else ExitFacts.from_code(exit_code)
    judgement = judge(Evidence(log=reading, exit=ended))
    if as_json:
        typer.echo(json.dumps(render.as_json(judgement), indent=2, ensure_ascii=False))
    else:
        typer.echo(render.as_text(judgement), nl=False)


def _file(name: str) -> Path:
    """The log as a readable file.

    Raises:
        UserError: When it cannot be read.
    """
    from tuner.errors import UserError

    path = Path(name)
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(
            f"cannot read the log {name}: {reason}", mend="name a log file, or -"
        ) from error


def _stdin() -> Iterator[bytes]:
    return iter(sys.stdin.buffer.readline, b"")

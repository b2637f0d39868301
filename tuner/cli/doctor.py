"""``tuner doctor``: what is wrong with this machine, and how to mend it."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at all that a study needs, and say what to mend.

    Nothing is changed.

    Looks at the state folder, the disks, the ledger, engines that were left, quarantine, devices, host
    memory and its limits, shared memory, ports, built engines, Docker, the daemon and its
    daemon.toml. Exits 0 when all is well, 1 when something has to be mended.

    Example: tuner doctor
    """
    from tuner import paths
    from tuner.daemon.care import look_at_daemon
    from tuner.telemetry.detect import detect
    from tuner.trial.care.doctor import examine
    from tuner.trial.care.finding import Level, well

    detection = detect()
    try:
        found = examine(context.obj, paths.cache_dir(), detection)
        found += look_at_daemon(context.obj)
    finally:
        detection.source.close()
    if as_json:
        data = {"well": well(found), "findings": [each.as_json() for each in found]}
        typer.echo(json.dumps(data, indent=2))
    else:
        for each in found:
            typer.echo(
                f"{each.level.upper() if each.level is Level.BAD else each.level:4} {each.check}: {each.said}"
            )
            if each.mend is not None:
                typer.echo(f"     mend: {each.mend}")
        bad = sum(each.level is Level.BAD for each in found)
        typer.echo("all is well" if not bad else f"{bad} to be mended")
    raise typer.Exit(0 if well(found) else 1)

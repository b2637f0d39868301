"""``tuner attach``, ``stop``, ``pause``, ``queue``, ``page`` and ``daemon``: the daemon, and how to tell it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tuner.cli.arguments import StudyName
from tuner.cli.complete import study_names

app = typer.Typer(no_args_is_help=True, help="Start, stop and look at the daemon.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_STOP = 130.0


def attach(context: typer.Context, study: StudyName) -> None:
    """Show a study while it runs; Ctrl-C only ends the looking.

    Example: tuner attach local-cpu
    """
    from tuner.cli.follow import follow
    from tuner.daemon.client import Client

    with Client(context.obj) as client:
        follow(client, study)


def stop(context: typer.Context, study: StudyName, as_json: AsJson = False) -> None:
    """End a study's trial in good order, and then the study.

    `tuner resume` goes on.

    Example: tuner stop local-cpu
    """
    _tell(context.obj, study, "stop", as_json=as_json)


def pause(context: typer.Context, study: StudyName, as_json: AsJson = False) -> None:
    """Let a study finish the trial in hand, and then wait.

    `tuner resume` goes on.

    Example: tuner pause local-cpu
    """
    _tell(context.obj, study, "pause", as_json=as_json)


def _tell(state: Path, study: str, what: str, *, as_json: bool) -> None:
    from tuner.daemon.client import Client

    with Client(state) as client:
        if client.get(f"/v1/studies/{study}")["status"] == "finished":
            said = f"study {study} is finished already"
        else:
            client.want()
            told = client.post(f"/v1/studies/{study}/{what}")["said"]
            said = f"{told}; go on with: tuner resume {study}"
        if as_json:
            typer.echo(json.dumps(client.get(f"/v1/studies/{study}"), indent=2))
        else:
            typer.echo(said)


def queue(
    context: typer.Context,
    study: Annotated[
        str | None,
        typer.Argument(help="A study.", metavar="STUDY", autocompletion=study_names),
    ] = None,
    priority: Annotated[
        int | None, typer.Option(min=-100, max=100, help="Its priority: higher goes first.")
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(help="Move it right before this one.", autocompletion=study_names),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Its most trials from now on.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what runs and what waits, or change a study's place.

    Its budget can be changed, too, also while it runs.

    Example: tuner queue local-cpu --priority 5 --trials 60
    """
    from tuner.daemon.client import Client
    from tuner.errors import UserError

    changes = {"priority": priority, "before": before, "budget": {"trials": trials}}
    if study is None and (priority, before, trials) != (None, None, None):
        raise UserError("which study is meant?", mend="name it: tuner queue STUDY …")
    with Client(context.obj) as client:
        if study is not None:
            client.get(f"/v1/studies/{study}")  # without a daemon, too: the name may be wrong
            client.want()
            client.patch(f"/v1/studies/{study}", changes)
        found = [s for s in client.get("/v1/studies") if s["status"] in {"running", "queued"}]
    found.sort(key=lambda s: (s["status"] != "running", s["place"] or 0))
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for one in found:
        typer.echo(_queued(one))
    if not found:
        typer.echo("nothing runs and nothing waits")


def _queued(study: dict[str, Any]) -> str:
    where = f"{study['place']}." if study["place"] else "now"
    why = f"  {study['waiting']}" if study["waiting"] else ""
    devices = f"  on {', '.join(study['devices'])}" if study["devices"] else ""
    return f"{where:>4} {study['study']}  priority {study['priority']}{devices}{why}"


def page(
    context: typer.Context,
    browser: Annotated[bool, typer.Option("--browser", help="Open it in the browser.")] = False,
) -> None:
    """Open the daemon's web page and print its address.

    It is on 127.0.0.1; a daemon is started if none runs.

    The address holds a token: it is for you alone.

    Example: tuner page --browser
    """
    from tuner.cli.run import IDLE_EXIT
    from tuner.daemon.client import Client
    from tuner.daemon.start import start

    start(context.obj, idle_exit=IDLE_EXIT)
    with Client(context.obj, need=True) as client:
        address = client.post("/v1/page")["said"]
    if browser:
        typer.launch(address)
    typer.echo(address)


@app.command("start")
def start_daemon(
    context: typer.Context,
    tcp: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Listen on this port of 127.0.0.1 too; 0 for any."),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Be the daemon, as a service manager wants it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start the daemon of the state folder, if none runs.

    It stays until it is told to end. So does one that runs already, also one that `tuner run` has started;
    with --tcp it opens the port.

    Example: tuner daemon start
    """
    if foreground:
        from tuner.daemon.server import serve

        serve(context.obj, tcp=tcp, idle_exit=None)
        return
    from dataclasses import asdict

    from tuner.daemon.start import start

    address, fresh = start(context.obj, tcp=tcp)
    if as_json:
        typer.echo(json.dumps({**asdict(address), "fresh": fresh}, indent=2))
        return
    word = "started" if fresh else "runs already"
    port = f", port {address.tcp} on 127.0.0.1" if address.tcp is not None else ""
    typer.echo(f"the daemon {word}: process {address.pid}, {address.socket}{port}")


@app.command("stop")
def stop_daemon(context: typer.Context, as_json: AsJson = False) -> None:
    """End the daemon; trials end in good order.

    They are run again when a daemon starts.

    Example: tuner daemon stop
    """
    from tuner.daemon import home
    from tuner.daemon.client import Client
    from tuner.daemon.start import await_end
    from tuner.errors import TunerError

    address = home.read_address(context.obj)
    if address is not None:
        with Client(context.obj, need=True) as client:
            client.post("/v1/shutdown")
        if not await_end(address, patience=_STOP):
            raise TunerError(f"the daemon (process {address.pid}) does not end; see its log")
    if as_json:
        typer.echo(json.dumps({"ended": address.pid if address else None}))
        return
    typer.echo(f"process {address.pid} has ended" if address else "no daemon runs here")


@app.command("status")
def daemon_status(context: typer.Context, as_json: AsJson = False) -> None:
    """Say whether a daemon runs here and how it is doing.

    Exits 1 when none does.

    Example: tuner daemon status
    """
    from tuner.daemon.client import Client

    with Client(context.obj) as client:
        if client.address is None:
            typer.echo(json.dumps(None) if as_json else "no daemon runs here")
            raise typer.Exit(1)
        health = client.get("/v1/health")
    if as_json:
        typer.echo(json.dumps(health, indent=2))
        return
    from tuner.quantity import format_bytes, format_seconds

    up = format_seconds(time.time() - health["started"])
    typer.echo(f"tuner {health['version']}, process {health['pid']}, up {up}")
    typer.echo(f"state: {health['state']} ({format_bytes(health['size'])})")
    typer.echo(f"running: {', '.join(health['running']) or 'nothing'}")
    if health["queued"]:
        typer.echo(f"queued:  {', '.join(health['queued'])}")
    for problem in health["problems"]:
        typer.echo(f"problem: {problem}")

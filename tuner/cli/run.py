"""``tuner run`` and ``tuner resume``: hand a study to the daemon and show it, or work on it here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.arguments import MostEngine, MostTrials, MostWall, StudyName, limits_given

if TYPE_CHECKING:
    from tuner.spec import SearchSpace
    from tuner.store.ledger import Ledger

IDLE_EXIT = 600.0
"""Seconds without work after which a daemon ends that ``tuner run`` has started by itself."""

_Foreground = Annotated[
    bool, typer.Option("--foreground", help="Work on it here, without a daemon; Ctrl-C stops it.")
]
_Detach = Annotated[
    bool,
    typer.Option("--detach", "-d", help="Do not watch; see `tuner attach` and `tuner status`."),
]
_Json = Annotated[
    bool,
    typer.Option("--json", help="With --detach: print the study's place in the queue as JSON."),
]


def run(  # noqa: PLR0913, PLR0917 - one for each option
    context: typer.Context,
    space: Annotated[Path, typer.Argument(help="The search space.", metavar="SPACE")],
    trials: MostTrials = None,
    wall: MostWall = None,
    engine: MostEngine = None,
    priority: Annotated[
        int | None, typer.Option(min=-100, max=100, help="Higher goes first in the queue.")
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(help="The only devices it may use: indices or UUIDs.", metavar="A,B"),
    ] = None,
    migrate: Annotated[
        bool,
        typer.Option(
            "--migrate",
            help="Go on with a study whose search space has changed: trials that still fit count on, "
            "the others are kept as history.",
        ),
    ] = False,
    foreground: _Foreground = False,
    detach: _Detach = False,
    as_json: _Json = False,
) -> None:
    """Tune: build, search, measure the best again, write the winner.

    The engine is built where it is new.

    A daemon does the work, and is started if none runs: Ctrl-C only ends the looking.

    Example: tuner run search_spaces/local_cpu.yaml
    """
    from tuner.spec import load_space
    from tuner.trial.admission import check_models, check_port, check_targets

    if foreground:
        _refuse({"--priority": priority is not None, "--detach": detach, "--json": as_json})
    wanted = load_space(space)
    check_targets(wanted)
    check_models(wanted)
    check_port(wanted)
    only = devices.split(",") if devices else None
    limits = limits_given(trials, wall, engine)
    if foreground:
        from tuner.store.ledger import Ledger
        from tuner.store.queue import Queue
        from tuner.trial.entry import enter_study

        lent = _lent(only)
        with Ledger(context.obj, write=True) as ledger:
            row = enter_study(ledger, wanted, space, migrate=migrate)
            Queue(ledger).put(row.id, stood=str(Path.cwd()), budget=limits, devices=lent)
            _work(ledger, row.name, limits)
        return
    body: dict[str, Any] = {
        "space": wanted.text,
        "origin": str(space.resolve()),
        "stood": str(Path.cwd()),
        "migrate": migrate,
        "budget": limits,
        "priority": priority,
        "devices": only,
        "secrets": _secrets(wanted),
    }
    _hand_over(context.obj, "/v1/studies", body, detach=detach, as_json=as_json)


def resume(  # noqa: PLR0913, PLR0917 - one for each option
    context: typer.Context,
    study: StudyName,
    trials: MostTrials = None,
    wall: MostWall = None,
    engine: MostEngine = None,
    foreground: _Foreground = False,
    detach: _Detach = False,
    as_json: _Json = False,
) -> None:
    """Go on with a study, perhaps with more budget.

    It was stopped, paused, killed or interrupted, or it is over and its search gets more trials
    and more time: all limits that it ended at must be raised.

    Example: tuner resume local-cpu --trials 40 --wall 30m
    """
    from tuner.store.ledger import Ledger

    limits = limits_given(trials, wall, engine)
    if foreground:
        _refuse({"--detach": detach, "--json": as_json})
        with Ledger(context.obj, write=True) as ledger:
            _work(ledger, study, limits)
        return
    from tuner.trial.entry import stored_space

    with Ledger(context.obj, write=False) as reader:
        secrets = _secrets(stored_space(reader, reader.study(study)))
    body = {"budget": limits, "secrets": secrets}
    _hand_over(context.obj, f"/v1/studies/{study}/resume", body, detach=detach, as_json=as_json)


def _refuse(given: dict[str, bool]) -> None:
    """Refuse options that are for the daemon alone, which --foreground does without.

    Raises:
        UserError: When one of them is given.
    """
    from tuner.errors import UserError

    for option, is_given in given.items():
        if is_given:
            raise UserError(
                f"{option} does nothing with --foreground", mend="leave one of the two out"
            )


def _lent(asked: list[str] | None) -> tuple[str, ...] | None:
    """The keys of the devices that a person named.

    Raises:
        UserError: When there is no such device.
    """
    from tuner.telemetry.detect import detect
    from tuner.trial.leases import check_devices

    source = detect().source
    try:
        return check_devices(asked, source.devices)
    finally:
        source.close()


def _hand_over(
    state: Path, path: str, body: dict[str, Any], *, detach: bool, as_json: bool
) -> None:
    """Give a study to the daemon, and watch it if that is wanted."""
    import json

    from tuner.daemon.client import Client
    from tuner.daemon.start import start

    start(state, idle_exit=IDLE_EXIT)
    with Client(state, need=True) as client:
        study = client.post(path, body)
        name = study["study"]
        if as_json:
            typer.echo(json.dumps(study, indent=2))
        elif detach:
            typer.echo(f"study {name} is in the queue; look: tuner attach {name}")
        else:
            from tuner.cli.follow import follow

            follow(client, name)


def _secrets(space: SearchSpace) -> dict[str, str]:
    """The secrets that a space asks for, as far as they are set here; the worker says what lacks."""
    from tuner.trial.entry import secret_names

    return {name: os.environ[name] for name in secret_names(space) if name in os.environ}


def _work(ledger: Ledger, name: str, given: dict[str, float]) -> None:
    from tuner.cli.finish import finish
    from tuner.cli.live import watching, wide_console
    from tuner.cli.view import StudyView, limits
    from tuner.daemon.view import Views
    from tuner.errors import NothingFeasible
    from tuner.store.overview import briefs
    from tuner.store.queue import Queue
    from tuner.trial.entry import stored_space
    from tuner.trial.session import stop_on_signals, work
    from tuner.trial.wishes import Wishes

    row = ledger.study(name)
    console = wide_console()
    # Whatever comes of it here, a daemon that starts later is not to go on with it by itself.
    queue = Queue(ledger)
    queue.want(row.id, "stop")
    if given and queue.find(row.id) is not None:
        queue.allow(row.id, given)
    entry = queue.find(row.id)
    wishes = Wishes(budget={**(entry.budget if entry else {}), **given})
    view = StudyView(name, budget=limits(stored_space(ledger, row), wishes))
    with stop_on_signals(wishes.cancelled), watching(view, console) as watcher:
        try:
            decision = work(
                ledger,
                row,
                watchers=[watcher],
                wishes=wishes,
                devices=entry.devices if entry is not None else None,
            )
        except NothingFeasible:
            decision = None
    detail = Views(ledger, None).detail(ledger.study(name)).model_dump()
    if decision is None and detail["status"] == "stopped":
        console.print(f"stopped; go on with: tuner resume {name}")
        raise typer.Exit(0)
    raise typer.Exit(finish(detail, briefs(ledger, row.id, figures=True), console))

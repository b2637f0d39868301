"""The daemon and its machine: health, devices, metrics, the page's token, the end."""

from __future__ import annotations

import os
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from tuner import __version__
from tuner.daemon import metrics
from tuner.daemon.guard import COOKIE, over_tcp
from tuner.daemon.models import Health, Machine, Staying, Told
from tuner.daemon.problems import RESPONSES, Refused
from tuner.daemon.service import Here
from tuner.daemon.view import Views
from tuner.trial.leases import HOST

router = APIRouter(tags=["daemon"], responses=RESPONSES)


@router.get("/v1/health")
def health(here: Here) -> Health:
    """How the daemon is doing. It answers also while studies run, engines are built and loads go on."""
    supervisor = here.supervisor
    working = supervisor.working() if supervisor else {}
    with here.books.read() as ledger:
        names = {row.id: row.name for row in ledger.studies()}
        queued = [names[study] for study in Views(ledger, supervisor).queued()]
        quarantined = ledger.quarantined()
    problems = [*here.problems, *(f"{name}: {why}" for name, why in quarantined.items())]
    if supervisor is not None and supervisor.problem:
        problems.append(supervisor.problem)
    return Health(
        ok=not problems,
        version=__version__,
        pid=os.getpid(),
        started=here.started,
        state=str(here.state),
        recovering=bool(supervisor and supervisor.recovering),
        stopping=bool(supervisor and supervisor.stopping),
        running=[names[study] for study in working if study in names],
        queued=queued,
        page=here.page,
        size=here.size,
        size_limit=here.size_limit,
        problems=problems,
    )


@router.get("/v1/devices")
def devices(here: Here) -> Machine:
    """The machine's devices and its host now, and to which study each is lent."""
    found = here.machine.sample()
    with here.books.read() as ledger:
        names = {row.id: row.name for row in ledger.studies()}
        quarantined = ledger.quarantined()
    working = here.supervisor.working() if here.supervisor else {}
    lent = {key: names[study] for study, (_, keys) in working.items() for key in keys}
    shown: list[dict[str, Any]] = [
        {**device, "study": lent.get(device["key"]), "quarantine": quarantined.get(device["key"])}
        for device in found["devices"]
    ]
    return Machine(
        at=found["at"],
        host=found["host"],
        devices=shown,
        study=lent.get(HOST),
        quarantine=quarantined.get(HOST),
        problem=found["problem"],
    )


@router.get("/metrics", response_class=PlainTextResponse)
def prometheus(here: Here) -> Response:
    """The same for Prometheus."""
    return Response(metrics.render(here), media_type=metrics.MEDIA)


@router.post("/v1/session", status_code=204)
def session(request: Request) -> Response:
    """Give a browser that has shown the token a cookie that stands for it; for the page."""
    if not over_tcp(request.scope):
        raise Refused(409, "the socket needs no token")
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    answer = Response(status_code=204)
    if token:
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")
    return answer


@router.post("/v1/page")
def page(here: Here, request: Request) -> Told:
    """Open the port for the web page and say its address; only through the socket, for it holds the token."""
    here.working()
    if over_tcp(request.scope):
        raise Refused(403, "the page is opened through the socket: use `tuner page`")
    if here.open_page is None:
        raise Refused(503, "this daemon has no page")
    return Told(said=here.open_page())


@router.post("/v1/stay")
def stay(here: Here, request: Request, given: Staying) -> Told:
    """Stay up when there is nothing to do, and listen on a port too; only through the socket, as for the page."""
    here.working()
    if over_tcp(request.scope):
        raise Refused(403, "a port is opened through the socket: use `tuner daemon start --tcp`")
    if here.stay is None:
        raise Refused(503, "nothing here can stay")
    here.stay(given.tcp)
    return Told(said="the daemon stays until it is told to end")


@router.post("/v1/shutdown", status_code=202)
def shutdown(here: Here) -> Told:
    """End the daemon: trials end in good order and are run again when a daemon starts."""
    here.working()
    if here.shut_down is None:
        raise Refused(503, "nothing here can be ended")
    here.shut_down()
    return Told(said="the daemon ends its trials and then itself")

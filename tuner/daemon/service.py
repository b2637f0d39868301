"""The daemon as its routes see it: the ledger, the workers, the machine, those who watch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from tuner.daemon.books import Books
from tuner.daemon.hub import Hub
from tuner.daemon.machine import Machine
from tuner.daemon.problems import Refused
from tuner.daemon.supervisor import Supervisor

_CHECK = 20.0
"""Seconds that a request waits for the daemon to look its ledger over, when it has just started."""


@dataclass(slots=True)
class Service:
    """What the routes work with.

    Attributes:
        books: The ledger.
        hub: Those who watch.
        machine: The devices.
        supervisor: The workers; None where no daemon runs and the ledger is only read.
        shut_down: Asks the daemon to end.
        open_page: Opens the port for the web page and gives its address, token included.
        stay: Keeps the daemon up when it idles, and opens a port where one is named.
        started: When the daemon started, seconds since 1970.
        page: Address of the web page, while it is open.
        size: Bytes of the state folder, as last counted.
        size_limit: Bytes that it is kept below.
        problems: What is wrong, in words.
    """

    books: Books
    hub: Hub
    machine: Machine
    supervisor: Supervisor | None = None
    shut_down: Callable[[], None] | None = None
    open_page: Callable[[], str] | None = None
    stay: Callable[[int | None], None] | None = None
    started: float = field(default_factory=time.time)
    page: str | None = None
    size: int = 0
    size_limit: int = 0
    problems: list[str] = field(default_factory=list)
    last_request: float = field(default_factory=time.monotonic)

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.books.state

    def working(self) -> Supervisor:
        """The supervisor.

        Raises:
            Refused: When no daemon runs.
        """
        if self.supervisor is None:
            raise Refused(503, "no daemon runs: start one with `tuner daemon start`")
        if self.supervisor.stopping:
            raise Refused(503, "the daemon is ending: try again when a new one runs")
        if not self.supervisor.await_sound(_CHECK):
            raise Refused(503, "the daemon still looks its ledger over: try again")
        return self.supervisor


def service_of(request: Request) -> Service:
    """The service of the application that a request came to."""
    service: Service = request.app.state.service
    service.last_request = time.monotonic()
    return service


Here = Annotated[Service, Depends(service_of)]
"""A route's parameter that is the service."""

"""The API fuzzed from its own description: no 5xx, nothing that the description does not say, no path leaks."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fakes.ledgers import fill
from tuner.daemon.app import make_app
from tuner.daemon.books import Books
from tuner.daemon.hub import Hub
from tuner.daemon.machine import Machine
from tuner.daemon.service import Service
from tuner.daemon.supervisor import Supervisor
from tuner.paths import data_dir
from tuner.store.ledger import Ledger

pytestmark = pytest.mark.slow

TOKEN = "t" * 43
_CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
_BEARER = {"Authorization": f"Bearer {TOKEN}"}
_SHIPPED = "".join(f.read_text() for f in (data_dir() / "search_spaces").glob("*.yaml"))
_INSIDES = re.compile(r"Traceback|site-packages|File \"|/tuner/daemon/|sqlite3\.")


class Idle(Supervisor):
    """A supervisor that takes every wish and starts nobody."""

    def await_sound(self, seconds: float) -> bool:
        """Nothing is to be looked at."""
        return seconds > 0


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server over a ledger with two studies, that starts no worker and does not end when it is told."""
    state = tmp_path_factory.mktemp("fuzz") / "state"
    with Ledger(state, write=True) as ledger:
        for name in ("one", "two"):
            fill(ledger, name, trials=8)
        log = state / "studies/one/trials/0000/attempt-1/engine.log"
        log.parent.mkdir(parents=True)
        log.write_text("started\n")
    books, hub, machine = Books(state, write=True), Hub(), Machine()
    supervisor = Idle(books, hub, machine)
    supervisor.recovering = False
    ended: list[int] = []
    service = Service(
        books, hub, machine, supervisor, lambda: ended.append(1), lambda: "http://127.0.0.1:1/"
    )
    hub.close()  # streams of events end at once: the fuzzer reads each answer to its end
    config = uvicorn.Config(make_app(service, token=TOKEN), port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        pass
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()
    books.close()


def meet_what_is_there(_: Any, given: dict[str, Any] | None) -> dict[str, Any] | None:
    """Let every other case meet a study and a trial that are there."""
    if given and len(str(given.get("study", ""))) % 2:
        given["study"] = "one" if len(str(given["study"])) % 4 == 1 else "two"
        if isinstance(given.get("trial"), int):
            given["trial"] %= 10
    return given


def operations() -> list[Any]:
    """Every operation that the application describes."""
    nowhere = Service(Books(Path("/nowhere"), write=False), Hub(), Machine())
    schema = schemathesis.openapi.from_dict(make_app(nowhere).openapi())
    schema.hook("map_path_parameters")(meet_what_is_there)
    every: Any = schema.get_all_operations()
    return [found.ok() for found in every]


@pytest.mark.parametrize("operation", operations(), ids=lambda one: one.label)
def test_the_api_keeps_what_it_describes(base: str, operation: Any) -> None:
    @settings(
        max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        answer = case.call(base_url=base, headers=_BEARER)
        case.validate_response(answer, checks=_CHECKS)
        assert not _INSIDES.search(answer.text)
        for place in re.findall(r"/(?:etc|home|root|usr|var|opt)/[\w./-]*", answer.text):
            # Nothing is named but what the client itself has sent, and what tuner ships.
            sent = f"{case.body} {case.path_parameters}"
            assert place in sent or place in _SHIPPED

    ask()

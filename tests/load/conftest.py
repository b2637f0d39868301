from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tuner.load.endpoint import Endpoint
from tuner.load.plan import Closed, Message, Plan, Session, Turn

MOCK = Path(__file__).parents[1] / "fakes" / "mock_openai.py"


@dataclass
class Mock:
    """A running mock server."""

    process: subprocess.Popen[str]
    endpoint: Endpoint

    def log(self) -> dict[str, Any]:
        url = f"{self.endpoint.url}/mock/log"
        with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310  (a loopback URL)
            found: dict[str, Any] = json.load(reply)
        return found

    def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.log()["requests"]
        return found


@pytest.fixture
def start_mock() -> Iterator[Callable[..., Mock]]:
    """Starts mock servers and ends them after the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*args: str) -> Mock:
        argv = [sys.executable, str(MOCK), "--log-messages", *args]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if line.isdigit():
            return Mock(process, Endpoint(model="llm", port=int(line)))
        return Mock(process, Endpoint(model="llm", uds=Path(line)))

    yield start
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def mock(start_mock: Callable[..., Mock]) -> Mock:
    return start_mock()


def turn(text: str = "hello", **mock: Any) -> Turn:
    return Turn(
        messages=(Message("user", text),), max_tokens=8, sampling=json.dumps({"mock": mock})
    )


def plan_of(*sessions: list[Turn], concurrency: int = 4, **more: Any) -> Plan:
    """A closed-loop plan of conversations."""
    return Plan(
        workload="test",
        seed=0,
        sessions=tuple(Session(tuple(turns)) for turns in sessions),
        pacing=Closed(concurrency),
        **more,
    )

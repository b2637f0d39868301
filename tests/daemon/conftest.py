"""A daemon of a test's own, and the worlds that it works in."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes.world import World
from tuner.daemon import home
from tuner.daemon.client import Client
from tuner.daemon.staff import clean_environment
from tuner.daemon.start import await_end, start

QUICK: dict[str, Any] = {
    "budget": {"trials": 2},
    "search": {"sampler": "random", "finalists": {"count": 0}},
}
"""Changes of a world that make its study short."""


@dataclass(slots=True)
class Keeper:
    """Starts daemons of one state folder, kills them, and sees to it that none is left."""

    state: Path

    def start(self, **options: Any) -> Client:
        """A daemon, and somebody who talks to it."""
        start(self.state, **options)
        return Client(self.state, need=True)

    def kill(self, *, workers: bool = False) -> None:
        """Kill the daemon as the kernel would; and its workers at the same moment, where wanted."""
        address = home.read_address(self.state)
        assert address is not None
        victims = [psutil.Process(address.pid), *(self.workers() if workers else ())]
        for victim in victims:
            victim.send_signal(signal.SIGKILL)
        while not bury(address.pid):
            time.sleep(0.01)

    def workers(self) -> list[psutil.Process]:
        """The daemon's workers."""
        address = home.read_address(self.state)
        assert address is not None
        found = []
        for child in psutil.Process(address.pid).children():
            with contextlib.suppress(psutil.Error):
                if "tuner.daemon.worker" in child.cmdline():
                    found.append(child)
        return found

    def stop(self) -> None:
        """End the daemon in good order."""
        address = home.read_address(self.state)
        if address is None:
            return
        os.kill(address.pid, signal.SIGTERM)
        deadline = time.monotonic() + 60
        while not bury(address.pid):
            assert time.monotonic() < deadline, "the daemon does not end"
            time.sleep(0.05)
        assert await_end(address, patience=5)


def bury(pid: int) -> bool:
    """Whether a process is gone; one that is a dead child of ours is buried."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return not psutil.pid_exists(pid)


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    """A keeper, whose daemon is ended after the test."""
    one = Keeper(tmp_path / "state")
    yield one
    one.stop()


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    """Makes worlds with short studies, each in a folder of its own."""

    def make(name: str = "fake", **changes: Any) -> World:
        fake = changes.pop("fake", ())
        env = changes.pop("recipe_env", {})
        all_changes = {**QUICK, "study": name, "export": {"dir": str(tmp_path / name / "out")}}
        return World(tmp_path / name, {**all_changes, **changes}, fake, env).make()

    return make


def body(world: World, **more: Any) -> dict[str, Any]:
    """What is sent to submit a world's study."""
    return {
        "space": world.space.read_text(),
        "origin": str(world.space),
        "stood": str(world.folder),
        **more,
    }


def until(client: Client, study: str, *wanted: str, seconds: float = 60.0) -> dict[str, Any]:
    """The study, once it is in one of these statuses."""
    deadline = time.monotonic() + seconds
    while True:
        found: dict[str, Any] = client.get(f"/v1/studies/{study}")
        if found["status"] in wanted:
            return found
        assert time.monotonic() < deadline, f"still {found['status']}: {found['reason']}"
        time.sleep(0.1)


def wait_for(client: Client, study: str, kind: str, **data: object) -> None:
    """Wait until an event of a study was told."""
    with client.events(f"/v1/studies/{study}/events", 0) as events:
        for event in events:
            if event["kind"] == kind and data.items() <= event["data"].items():
                return
    pytest.fail(f"no {kind} came")


def tuner(
    state: Path, *words: str, env_more: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line."""
    return subprocess.run(
        [sys.executable, "-m", "tuner", "--state", str(state), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**clean_environment(), **(env_more or {})},
        **options,
    )


def of_folder(folder: Path) -> list[str]:
    """Commands of live processes that stand in a folder or below it: engines, that is."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if Path(process.cwd()).is_relative_to(folder):
                found.append(" ".join(process.cmdline()))
    return found

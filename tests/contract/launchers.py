"""The launchers that the contract holds for, and what it asks of each.

Another launcher joins by an entry in ``SUBJECTS``: how it is made, and how the fake server is
started through it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FAKE
from tests.fakes import fake_image
from tuner.launch.base import ContainerPlan, Grace, Launch, Launcher, LaunchPlan
from tuner.launch.docker import DockerLauncher
from tuner.launch.process import ProcessLauncher
from tuner.launch.readiness import Patience, Waited, await_ready

FAST = Grace(term=1.5, kill=5.0, settle=5.0)


@dataclass(frozen=True, slots=True)
class Subject:
    """One launcher under the contract.

    Attributes:
        name: Its entry in ``SUBJECTS``.
        make: Makes the launcher.
        server: The fake server's command, as this launcher has to be told it.
        env: The least environment that the command needs.
        marks: Marks of pytest for all its tests.
        container: Makes what its containers need, where it starts containers.
        orphans: How many of the fake's processes live on when its first one is killed.
    """

    name: str
    make: Callable[[], Launcher]
    server: tuple[str, ...]
    env: dict[str, str]
    marks: tuple[pytest.MarkDecorator, ...] = ()
    container: Callable[[], ContainerPlan] | None = None
    orphans: int = 2

    def plan(
        self,
        folder: Path,
        *switches: str,
        argv: tuple[str, ...] = (),
        memory_limit: int | None = None,
        **env: str,
    ) -> LaunchPlan:
        """A plan for the fake server with misbehaviours switched on."""
        folder.mkdir(parents=True, exist_ok=True)
        return LaunchPlan(
            argv=(*self.server, *argv),
            env={**self.env, "FAKE": ",".join(switches), **env},
            folder=folder,
            grace=FAST,
            memory_limit=memory_limit,
            labels={"folder": str(folder)},
            container=self.container() if self.container is not None else None,
        )

    def start(self, folder: Path, *switches: str, **more: Any) -> Launch:
        """The fake server, started."""
        launcher = self.make()
        wanted = self.plan(folder, *switches, **more)
        return launcher.start(wanted, launcher.prepare(wanted))


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject(
            "process", ProcessLauncher, (sys.executable, str(FAKE)), {"PATH": os.environ["PATH"]}
        ),
        Subject(
            "process-uncaged",
            lambda: ProcessLauncher(cages=False),
            (sys.executable, str(FAKE)),
            {"PATH": os.environ["PATH"]},
        ),
        Subject(
            "docker",
            DockerLauncher,
            fake_image.SERVER,
            {},
            (pytest.mark.docker,),
            lambda: ContainerPlan(fake_image.fake_image()),
            orphans=0,
        ),
    )
}
PROCESS = SUBJECTS["process"]


def subjects(*names: str) -> list[Any]:
    """Parameters for a fixture: these launchers, each with its marks."""
    return [pytest.param(SUBJECTS[name], id=name, marks=SUBJECTS[name].marks) for name in names]


def wait(
    launch: Launch,
    *,
    quiet: float = 3.0,
    silent: float = 6.0,
    cancelled: threading.Event | None = None,
) -> Waited:
    """Wait for the fake to be ready, with a patience fit for tests."""
    limits = Patience(quiet=quiet, silent=silent, total=20.0)
    return await_ready(launch, model="llm", patience=lambda: limits, cancelled=cancelled)

"""What every launcher is put through: the plans, and the ways of asking whether all is gone."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from tests.conftest import FAKE
from tuner.launch.base import Grace, Launch, LaunchPlan
from tuner.launch.readiness import Patience, Waited, await_ready

FAST = Grace(term=1.5, kill=5.0, settle=5.0)


def plan(folder: Path, *switches: str, argv: tuple[str, ...] = (), **env: str) -> LaunchPlan:
    """A plan for the fake server with misbehaviours switched on."""
    folder.mkdir(parents=True, exist_ok=True)
    return LaunchPlan(
        argv=(sys.executable, str(FAKE), *argv),
        env={"PATH": os.environ["PATH"], "FAKE": ",".join(switches), **env},
        folder=folder,
        grace=FAST,
        memory_limit=None,
    )


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

"""An engine that a tuner started, recorded and then forgot, as one does that is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.contract.launchers import PROCESS
from tests.fakes.ledgers import fill
from tuner.launch.base import Launch
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin

Abandon = Callable[..., Launch]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "state", write=True) as ledger:
        fill(ledger, "nightly", trials=1)
        yield ledger


@pytest.fixture
def abandon(tmp_path: Path, ledger: Ledger) -> Iterator[Abandon]:
    """Starts the fake server as trial 1 of the study, records it, and leaves it alone."""
    with ExitStack() as ends:

        def start(*switches: str, **env: Any) -> Launch:
            plan = PROCESS.plan(tmp_path / "trial", *switches, **env)
            launcher = PROCESS.make()
            intent = launcher.prepare(plan)
            number = ledger.launch_intended(planned(ledger), "process", intent)
            launch = launcher.start(plan, intent)
            ends.callback(launch.stop, at_once=True)
            ledger.launch_seen(number, launch.identity())
            return launch

        yield start


def planned(ledger: Ledger, **deployment: Any) -> Any:
    """A planned trial of the study."""
    return ledger.plan(
        ledger.study("nightly").id,
        origin=Origin.SEARCH,
        params={},
        assignment=None,
        deployment=deployment,
    )

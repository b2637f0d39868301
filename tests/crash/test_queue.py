"""Killed while a proxy orders the queue: the queue, the gate and every role are what they would have been."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.dying import AFTER, BEFORE, Job
from tests.crash.nursery import Nursery, outcome
from tests.trial.climbs import study_of
from tests.trial.proxies import Fake, acting_space, drifting
from tuner.fidelity.evidence import Mode
from tuner.store.ledger import Ledger
from tuner.trial.gatelog import GATE
from tuner.trial.ordering import QUEUE
from tuner.trial.shadow import EVENT, Shadow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EVERY = int(os.environ.get("TUNER_TEST_QUEUE_KILLS_EVERY", "5"))
"""It is killed at one in so many of the changes that have to do with the queue; 1 is all of them."""
TELLING = {f"event {QUEUE}", f"event {EVENT}", f"event {GATE}", "trial planned", "trial told"}


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    found = Nursery(tmp_path / "cache", "tests.crash.queued")
    yield found
    with found:
        pass


def told(folder: Path) -> dict[str, Any]:
    """Everything that must be the same: trials, what was drawn, predicted and done by the gate."""
    state = folder / "state"
    found = outcome(state)
    assert set(found.told.values()) == {1}
    with Ledger(state, write=True) as ledger:
        (row,) = ledger.studies()
        own = study_of(ledger, acting_space(folder, most=24, sampler="startup: 6"))
        shadow = Shadow(own, Fake(drifting))
        shadow.restore(ledger.trials(row.id))
        events = ledger.events(row.id, kinds=(QUEUE, EVENT, GATE))
    return {
        "points": found.points,
        "scores": [t.score for t in found.trials],
        "events": [(e.kind, e.number, e.data) for e in events],
        "gate": shadow.gate,
    }


def test_killed_with_a_queue(tmp_path: Path, nursery: Nursery) -> None:
    record = tmp_path / "changes.txt"
    assert nursery.do(Job(str(tmp_path / "whole"), "", record=str(record))) == 0
    expected = told(tmp_path / "whole")
    gate = expected["gate"]
    assert gate.mode is Mode.DISABLED
    assert gate.deferred
    labels = [line.rstrip(" 0123456789") for line in record.read_text().splitlines()]
    first = labels.index(f"event {QUEUE}")
    points = [n for n, label in enumerate(labels, 1) if n > first and label in TELLING]
    assert {labels[n - 1] for n in points[::EVERY]} >= TELLING - {f"event {GATE}"}
    for point in points[::EVERY]:
        for when in (BEFORE, AFTER):
            folder = tmp_path / f"{point}-{when}"
            job = Job(str(folder), "", point=point, when=when)
            assert nursery.do(job) == -signal.SIGKILL
            assert nursery.do(Job(str(folder), "")) == 0, (folder / "run.log").read_text()
            assert told(folder) == expected, f"{folder.name}: {labels[point - 1]}"

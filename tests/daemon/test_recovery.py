"""Daemons that are killed in the middle of everything: both studies finish, nothing is left, nothing told twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.daemon.conftest import Keeper, body, of_folder, until
from tests.fakes.world import World
from tuner.daemon.client import Client, DaemonGone
from tuner.launch import shm
from tuner.store.ledger import Ledger
from tuner.store.stages import Stage

pytestmark = [pytest.mark.xdist_group("engines"), pytest.mark.slow, pytest.mark.timeout(400)]

ENDS = ("decision", "delivered")
"""What follows a study's last trial: that, too, may be the moment of a kill."""
CHANGES: dict[str, Any] = {
    "budget": {"trials": 7},
    "search": {"sampler": "random", "finalists": {"count": 0}},
}


def wait_until(client: Client, wanted: str) -> str | None:
    """Wait until a trial of some study is in a stage, or its study as far; None when all are over before."""
    health = client.get("/v1/health")
    if not health["running"] and not health["queued"]:
        return None
    try:
        with client.events("/v1/events", client.get("/v1/studies/one")["last_event"]) as events:
            for event in events:
                over = event["kind"] == "study" and event["data"]["status"] == "finished"
                if over and event["study"] == "two":
                    return None
                if moment(event) == wanted:
                    return str(event["study"])
    except DaemonGone:
        pytest.fail("the daemon died by itself")
    return None


def moment(event: dict[str, Any]) -> str:
    """The stage that an event tells of, as the ledger has it, or what it is else."""
    kind = str(event["kind"])
    return str(event["data"]["stage"]) if kind == "stage" else {"plan": "planned"}.get(kind, kind)


@pytest.mark.parametrize("workers", [False, True], ids=["daemon", "daemon and workers"])
def test_two_studies_survive_a_kill_in_each_stage(
    keeper: Keeper, world: Callable[..., World], *, workers: bool
) -> None:
    before = shm.snapshot()
    worlds = [world(name, fake=("retitle", "leak-shm"), **CHANGES) for name in ("one", "two")]
    with keeper.start() as client:
        for one in worlds:
            client.post("/v1/studies", body(one))
    hit = []
    for wanted in (*Stage, *ENDS):
        with keeper.start() as client:
            if wait_until(client, wanted) is not None:
                hit.append(wanted)
        keeper.kill(workers=workers)
        if wanted is Stage.MEASURED:
            # The next daemon is killed before it has cleared up what this one left.
            keeper.start().close()
            keeper.kill(workers=workers)
        if not workers:
            # Workers notice the end of their daemon and end in good order by themselves.
            deadline = time.monotonic() + 30
            while of_folder(keeper.state) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert not of_folder(keeper.state)
    assert hit == [*Stage, *ENDS]
    with keeper.start() as client:
        for name in ("one", "two"):
            assert until(client, name, "finished", seconds=180)["exit"] == 0
    assert not of_folder(keeper.state)
    assert not shm.leftovers(before)
    with Ledger(keeper.state, write=False) as ledger:
        assert not ledger.open_launches()
        assert not ledger.quarantined()
        for row, made in zip(ledger.studies(), worlds, strict=True):
            trials = ledger.trials(row.id)
            assert {t.stage for t in trials} == {Stage.TOLD}
            assert sum(t.launched for t in trials) == CHANGES["budget"]["trials"]
            assert ledger.events(row.id, kinds=["delivered"])
            assert (made.folder / "out" / "computility-run.yaml").is_file()
            told = Counter(t.number for t in ledger.transitions(row.id) if t.stage == "told")
            assert told == {t.number: 1 for t in trials}
            events = Counter(e.number for e in ledger.events(row.id, kinds=["told"]))
            assert events == told
            points = [str(sorted(t.params.items())) for t in trials]
            assert len(points) == len(set(points))
            # A trial that was interrupted ran again with the same point.
            plans = Counter(e.number for e in ledger.events(row.id, kinds=["plan"]))
            assert plans == told
        attempts = [t.attempt for r in ledger.studies() for t in ledger.trials(r.id) if t.launched]
        assert sum(attempts) > len(attempts)

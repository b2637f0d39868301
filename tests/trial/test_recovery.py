"""Engines that an earlier tuner left: of a study itself, and of others that nobody works on any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contract.launchers import PROCESS
from tests.fakes.ledgers import fill
from tests.fakes.world import World
from tests.trial.care.conftest import planned
from tuner.errors import ResidueFound
from tuner.launch.base import Launch
from tuner.launch.kinds import launchers
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_study
from tuner.store.rows import Origin
from tuner.trial.entry import enter_study, study_folder
from tuner.trial.events import Happening
from tuner.trial.recovery import end_abandoned, end_leftovers
from tuner.trial.rest import HOST
from tuner.trial.session import work
from tuner.trial.wishes import Wishes

pytestmark = [pytest.mark.xdist_group("engines"), pytest.mark.timeout(120)]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "state", write=True) as ledger:
        fill(ledger, "nightly", trials=1)
        yield ledger


@pytest.fixture
def orphan(tmp_path: Path, ledger: Ledger) -> Iterator[Launch]:
    """A live engine of the study ``nightly``, with nobody who minds it."""
    with ExitStack() as ends:
        plan = PROCESS.plan(tmp_path / "trial", FAKE_FORK="1")
        launcher = PROCESS.make()
        intent = launcher.prepare(plan)
        number = ledger.launch_intended(planned(ledger), "process", intent)
        launch = launcher.start(plan, intent)
        ends.callback(launch.stop, at_once=True)
        ledger.launch_seen(number, launch.identity())
        deadline = time.monotonic() + 10
        while len(launch.pids()) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        yield launch


@pytest.mark.slow
@pytest.mark.parametrize("minded", [False, True])
def test_no_engine_starts_beside_one_that_a_killed_command_left(
    tmp_path: Path, ledger: Ledger, orphan: Launch, monkeypatch: pytest.MonkeyPatch, *, minded: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    alive: list[bool] = []
    said: list[str] = []

    def hear(what: Happening) -> None:
        if what.kind == "stage" and what.data["stage"] == "starting":
            alive.append(bool(orphan.pids()))
        if what.kind == "note":
            said.append(what.data["text"])

    file = World(tmp_path / "world", {"budget": {"trials": 1}}).make().space
    row = enter_study(ledger, load_space(file), file)
    with ExitStack() as held:
        if minded:  # somebody works on it, with devices of their own
            held.enter_context(hold_study(study_folder(ledger, "nightly"), {}))
        work(ledger, row, watchers=[hear], wishes=Wishes())
    assert alive == [minded]
    assert bool(ledger.open_launches()) is minded
    told = "ended a leftover: engine of trial 1 (3 processes) of study nightly"
    assert (told in said) is not minded


@pytest.mark.slow
def test_a_study_leaves_what_is_its_own_to_itself(ledger: Ledger, orphan: Launch) -> None:
    assert end_abandoned(ledger, launchers(), but=ledger.study("nightly").id) == []
    assert orphan.pids()


@pytest.mark.slow
def test_where_an_engine_cannot_be_ended_nothing_starts(ledger: Ledger, orphan: Launch) -> None:
    with pytest.raises(ResidueFound, match="cannot be ended, so nothing is started"):
        end_abandoned(ledger, {}, but=0)
    assert HOST in ledger.quarantined()
    assert orphan.pids()


def test_an_engine_that_cannot_be_ended_is_told_once_as_a_quarantine_of_the_host(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = fill(ledger, "one", trials=1).id
        trial = ledger.plan(
            study, origin=Origin.SEARCH, params={}, assignment={}, deployment={"launch": "rocket"}
        )
        ledger.launch_intended(trial, "rocket", {})
        for _ in range(2):
            with pytest.raises(ResidueFound, match="a launch of kind rocket"):
                end_leftovers(ledger, {}, study)
        (event,) = ledger.events(study, kinds=["quarantine"])
        assert event.number == trial.number
        assert event.data["device"] == "host"
        assert "a launch of kind rocket" in event.data["reason"]
        assert ledger.quarantined()["host"] == event.data["reason"]

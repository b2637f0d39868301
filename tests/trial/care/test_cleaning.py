from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.contract.launchers import PROCESS
from tests.fakes.devices import GIB, MIB, TOTAL, FakeCards, draining, steady
from tests.trial.care.conftest import Abandon, planned
from tuner.errors import ResidueFound, TelemetryLost
from tuner.launch.base import Launch
from tuner.launch.identity import boot_id
from tuner.launch.kinds import launchers
from tuner.store.ledger import Ledger
from tuner.store.locks import Hold, hold_study
from tuner.store.rows import BaselineRow
from tuner.trial.care.cleaning import accept_baseline, clean, lift, survey, worker_of
from tuner.trial.entry import study_folder
from tuner.trial.leases import lease_file
from tuner.trial.sampling import Pace

pytestmark = pytest.mark.xdist_group("engines")

FAST = Pace(patience=0.3, step=0.01, answer=5.0)


def pids_of(launch: Launch) -> set[int]:
    deadline = time.monotonic() + 5
    while len(launch.pids()) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    return set(launch.pids())


def test_an_engine_that_was_left_is_shown_and_not_touched(ledger: Ledger, abandon: Abandon) -> None:
    launch = abandon("setsid", "retitle", "wipe", FAKE_FORK="1")
    pids = pids_of(launch)
    (found,) = survey(ledger, launchers())
    assert found.title == "engine of trial 1 of study nightly (process)"
    assert {process.pid for process in found.processes} == pids
    assert all(p.memory > 0 and p.age < 60 and p.evidence for p in found.processes)
    assert found.worker is None
    assert found.there
    assert any("tuner-" in thing for thing in found.things)  # its scratch folder
    assert set(launch.pids()) == pids
    assert len(ledger.open_launches()) == 1


def test_only_what_the_ledger_recorded_is_ended(
    ledger: Ledger, abandon: Abandon, tmp_path: Path
) -> None:
    ours = abandon("setsid", "retitle", "wipe", "ignore-term", FAKE_FORK="1")
    stranger = PROCESS.start(tmp_path / "stranger", "setsid", "retitle", "wipe", FAKE_FORK="1")
    try:
        theirs = pids_of(stranger)
        kinds = launchers()
        cleaned = clean(ledger, kinds, survey(ledger, kinds))
        assert cleaned.ended == ("engine of trial 1 (3 processes) of study nightly",)
        assert cleaned.kept == ()
        assert ours.pids() == ()
        assert set(stranger.pids()) == theirs
        assert ledger.open_launches() == []
        assert survey(ledger, kinds) == []
    finally:
        assert stranger.stop(at_once=True).gone


def test_a_reused_pid_is_nobody_of_ours(ledger: Ledger) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        plan = PROCESS.plan(ledger.folder / "trial")
        intent = PROCESS.make().prepare(plan)
        start = int(psutil.Process(bystander.pid).create_time())
        row = ledger.launch_intended(planned(ledger), "process", intent)
        ledger.launch_seen(row, {**intent, "pid": bystander.pid, "start_ticks": start})
        kinds = launchers()
        (found,) = survey(ledger, kinds)
        assert found.processes == ()
        assert clean(ledger, kinds, [found]).kept == ()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_an_engine_that_is_gone_is_only_closed(ledger: Ledger, abandon: Abandon) -> None:
    assert abandon(FAKE_FORK="1").stop(at_once=True).gone
    kinds = launchers()
    (found,) = survey(ledger, kinds)
    assert not found.there
    assert clean(ledger, kinds, [found]).ended == ()
    assert ledger.open_launches() == []


def test_a_study_that_runs_keeps_its_engine(ledger: Ledger, abandon: Abandon) -> None:
    launch = abandon(FAKE_FORK="1")
    pids = pids_of(launch)
    kinds = launchers()
    with hold_study(study_folder(ledger, "nightly"), {"pid": 4711}):
        (found,) = survey(ledger, kinds)
        assert found.worker == worker_of(ledger, "nightly") == 4711
        cleaned = clean(ledger, kinds, [found])
    assert cleaned.ended == ()
    assert "process 4711 works on the study" in cleaned.kept[0]
    assert set(launch.pids()) == pids


def test_a_record_that_cannot_be_read_is_said_and_stays(ledger: Ledger) -> None:
    ledger.launch_intended(planned(ledger), "process", {"pid": 1})
    kinds = launchers()
    (found,) = survey(ledger, kinds)
    assert found.problem is not None
    assert found.there
    assert "cannot be read" in clean(ledger, kinds, [found]).kept[0]
    assert len(ledger.open_launches()) == 1


@pytest.mark.slow
def test_what_cannot_be_ended_stays_in_quarantine_until_it_is(
    ledger: Ledger, abandon: Abandon, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = abandon(FAKE_FORK="1")
    pids_of(launch)
    kinds = launchers()
    with monkeypatch.context() as deaf:
        deaf.setattr("tuner.launch.identity.Member.send", lambda *_: False)
        deaf.setattr("tuner.launch.cage.Cage.kill", lambda _: False)
        deaf.setattr("tuner.launch.tree.Tree._kill_group", lambda *_: None)
        deaf.setattr("tuner.launch.base.Grace.__init__", quick_grace)
        cleaned = clean(ledger, kinds, survey(ledger, kinds))
    assert "still running" in cleaned.kept[0]
    assert list(ledger.quarantined()) == ["host"]
    assert "not proven gone" in lift(ledger, FakeCards(), [], FAST).kept["host"]
    assert len(clean(ledger, kinds, survey(ledger, kinds)).ended) == 1
    assert ledger.quarantined() == {}


def quick_grace(self: object, *_: object, **__: object) -> None:
    for name in ("term", "kill", "settle"):
        object.__setattr__(self, name, 0.2)


# --- quarantine ----------------------------------------------------------------------------------


def known(ledger: Ledger, used: int = 300 * MIB) -> None:
    ledger.keep_baseline(BaselineRow("GPU-0", boot_id(), "Card", used, TOTAL))


def test_a_device_that_is_back_leaves_quarantine(ledger: Ledger) -> None:
    known(ledger)
    ledger.quarantine("GPU-0", "after trial 3: 20 GiB above its baseline")
    cards = FakeCards(draining(5 * GIB, GIB, 300 * MIB))
    lifted = lift(ledger, cards, cards.devices(), FAST)
    assert lifted.released == ("GPU-0",)
    assert ledger.quarantined() == {}


@pytest.mark.parametrize(
    ("cards", "why"),
    [
        (FakeCards(steady(20 * GIB)), "above its baseline"),
        (FakeCards(lambda _: None), "cannot be read"),
        (FakeCards(steady(300 * MIB), utilization=100.0, sm_clock=25.0), "is sick: it is wedged"),
        (FakeCards(lambda at: (300 + 10 * at) * MIB), "still moves"),
    ],
    ids=["dirty", "unreadable", "sick", "moving"],
)
def test_a_device_that_is_not_back_stays(ledger: Ledger, cards: FakeCards, why: str) -> None:
    known(ledger)
    ledger.quarantine("GPU-0", "after trial 3")
    lifted = lift(ledger, cards, cards.devices(), FAST)
    assert lifted.released == ()
    assert lifted.kept["GPU-0"].startswith("after trial 3; now: ")
    assert why in lifted.kept["GPU-0"]
    assert "GPU-0" in ledger.quarantined()


def test_a_device_that_nobody_shows_stays(ledger: Ledger) -> None:
    ledger.quarantine("GPU-7", "after trial 3")
    assert "no driver shows it" in lift(ledger, FakeCards(), [], FAST).kept["GPU-7"]


def test_lost_telemetry_lifts_nothing(ledger: Ledger) -> None:
    known(ledger)
    ledger.quarantine("GPU-0", "after trial 3")
    cards = FakeCards(steady(300 * MIB))
    cards.lost_from = 0
    assert "says nothing" in lift(ledger, cards, cards.devices(), FAST).kept["GPU-0"]


# --- the baseline --------------------------------------------------------------------------------


def test_a_desktop_on_a_card_can_be_accepted(ledger: Ledger) -> None:
    cards = FakeCards(steady(6 * GIB))
    ledger.quarantine("GPU-0", "after trial 3")
    assert "before anything of ours" in lift(ledger, cards, cards.devices(), FAST).kept["GPU-0"]
    accept_baseline(ledger, cards, cards.devices(), FAST)
    assert ledger.baselines(boot_id())["GPU-0"].used == 6 * GIB
    assert lift(ledger, cards, cards.devices(), FAST).released == ("GPU-0",)


def test_what_an_engine_holds_is_no_baseline(ledger: Ledger, abandon: Abandon) -> None:
    cards = FakeCards(steady(6 * GIB))
    with (
        Hold(lease_file("GPU-0"), {"study": "other"}),
        pytest.raises(ResidueFound, match="a study works with GPU-0"),
    ):
        accept_baseline(ledger, cards, cards.devices(), FAST)
    abandon(FAKE_FORK="1")
    with pytest.raises(ResidueFound, match="run `tuner clean` first"):
        accept_baseline(ledger, cards, cards.devices(), FAST)
    assert ledger.baselines(boot_id()) == {}


def test_there_must_be_a_device_to_accept(ledger: Ledger) -> None:
    with pytest.raises(TelemetryLost, match="nothing to accept"):
        accept_baseline(ledger, FakeCards(), [], FAST)

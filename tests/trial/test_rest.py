from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.devices import GIB, MIB, TOTAL, FakeCards, draining, steady
from tests.fakes.world import World
from tuner.errors import NeedsMending, NothingFeasible, Quarantined, ResidueFound, TelemetryLost
from tuner.launch.identity import boot_id
from tuner.launch.readiness import Waited, await_ready
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.rows import BaselineRow, TrialRow
from tuner.store.stages import Stage
from tuner.telemetry import kernel_log
from tuner.telemetry.detect import Detection
from tuner.telemetry.samples import DeviceInfo
from tuner.telemetry.watch import read_samples
from tuner.trial import rest as module
from tuner.trial import runner, session
from tuner.trial.entry import enter_study
from tuner.trial.events import Happening, Watcher
from tuner.trial.rest import Rest, known_baseline
from tuner.trial.sampling import Pace
from tuner.trial.session import work
from tuner.trial.wishes import Wishes

FAST = Pace(patience=0.3, step=0.01, answer=5.0)
IDLE = 257 * MIB
SICK = "sick_device"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "state", write=True) as ledger:
        yield ledger


def known(ledger: Ledger, used: int = IDLE, device: str = "GPU-0") -> None:
    ledger.keep_baseline(BaselineRow(device, boot_id(), "Card", used, TOTAL))


def test_without_devices_nothing_is_asked(ledger: Ledger) -> None:
    cards = FakeCards()
    rest = Rest(ledger, cards, FAST)
    assert rest.require_clean(()) == ()
    rest.prove_back((), "trial 1")
    assert cards.asked == 0


def test_the_first_look_is_the_baseline_and_it_is_kept(ledger: Ledger) -> None:
    cards = FakeCards(steady(IDLE), steady(300 * MIB))
    (first, second) = Rest(ledger, cards, FAST).require_clean(cards.devices())
    assert (first.baseline, first.before, second.baseline) == (IDLE, IDLE, 300 * MIB)
    assert not first.dirty_before
    assert {d: b.used for d, b in ledger.baselines(boot_id()).items()} == {
        "GPU-0": IDLE,
        "GPU-1": 300 * MIB,
    }


def test_a_later_look_does_not_move_the_baseline(ledger: Ledger) -> None:
    known(ledger)
    cards = FakeCards(steady(IDLE + 200 * MIB))
    Rest(ledger, cards, FAST).require_clean(cards.devices())
    assert ledger.baselines(boot_id())["GPU-0"].used == IDLE


def test_another_boots_baseline_says_nothing(ledger: Ledger) -> None:
    ledger.keep_baseline(BaselineRow("GPU-0", "another boot", "Card", 1, TOTAL))
    cards = FakeCards(steady(IDLE))
    assert known_baseline(ledger, cards.devices()).devices[0].used is None
    Rest(ledger, cards, FAST).require_clean(cards.devices())
    assert ledger.baselines(boot_id())["GPU-0"].used == IDLE


def test_memory_that_an_earlier_engine_still_gives_back_is_waited_for(ledger: Ledger) -> None:
    known(ledger)
    cards = FakeCards(draining(30 * GIB, 5 * GIB, IDLE))
    (facts,) = Rest(ledger, cards, FAST).require_clean(cards.devices())
    assert facts.before == IDLE
    assert cards.asked > 6


def test_dirty_memory_is_found_before_anyone_is_blamed(ledger: Ledger) -> None:
    known(ledger)
    cards = FakeCards(steady(30 * GIB))
    with pytest.raises(ResidueFound, match=r"GPU-0: 29\.7 GiB above its baseline.*tuner doctor"):
        Rest(ledger, cards, FAST).require_clean(cards.devices())
    assert ledger.quarantined() == {}  # nothing of ours is to blame


def test_a_device_that_is_full_at_first_sight_is_not_taken_for_idle(ledger: Ledger) -> None:
    cards = FakeCards(steady(30 * GIB))
    rest = Rest(ledger, cards, FAST)
    with pytest.raises(ResidueFound, match=r"holds 30\.0 GiB before anything.*--accept-baseline"):
        rest.require_clean(cards.devices())
    assert ledger.baselines(boot_id()) == {}
    rest.accept(cards.devices())
    (facts,) = rest.require_clean(cards.devices())
    assert facts.baseline == 30 * GIB


def test_memory_that_moves_at_rest_is_no_baseline(ledger: Ledger) -> None:
    cards = FakeCards(lambda at: IDLE + at * 10 * MIB)
    with pytest.raises(TelemetryLost, match="could not be read at rest"):
        Rest(ledger, cards, FAST).require_clean(cards.devices())


def test_memory_that_drains_slowly_is_back_in_the_end(ledger: Ledger) -> None:
    known(ledger)
    cards = FakeCards(draining(28 * GIB, 3 * GIB, IDLE))
    Rest(ledger, cards, FAST).prove_back(cards.devices(), "trial 3")
    assert ledger.quarantined() == {}
    assert cards.asked > 9


@pytest.mark.parametrize(
    ("used", "reason"),
    [
        (steady(20 * GIB), "19.7 GiB above its baseline; 655.4 MiB is allowed"),
        (lambda at: IDLE + 100 * MIB + at % 2 * 50 * MIB, "its memory still moves"),
        (lambda at: None if at else IDLE, "cannot be read (Unknown Error)"),
    ],
)
def test_a_device_that_does_not_come_back_is_quarantined_and_the_next_start_refused(
    ledger: Ledger, used: object, reason: str
) -> None:
    known(ledger)
    cards = FakeCards(used, steady(IDLE))  # type: ignore[arg-type]
    known(ledger, device="GPU-1")
    rest = Rest(ledger, cards, FAST)
    with pytest.raises(Quarantined, match="after trial 3"):
        rest.prove_back(cards.devices(), "trial 3")
    assert list(ledger.quarantined()) == ["GPU-0"]
    assert reason in ledger.quarantined()["GPU-0"]
    with pytest.raises(Quarantined, match=r"GPU-0: after trial 3.*tuner doctor.*tuner clean"):
        rest.require_clean(cards.devices())
    rest.require_clean(cards.devices()[1:])  # the other card may be used


@pytest.mark.slow
@pytest.mark.parametrize("how", ["lost", "hangs"])
def test_lost_telemetry_is_a_failure_and_never_a_pass(ledger: Ledger, how: str) -> None:
    known(ledger)
    cards = FakeCards(steady(IDLE))
    # Only a driver that hangs is waited for in vain: any other answers as soon as the machine lets it.
    rest = Rest(ledger, cards, replace(FAST, answer=0.3) if how == "hangs" else FAST)
    rest.require_clean(cards.devices())
    if how == "lost":
        cards.lost_from = cards.asked
    else:
        cards.hangs = True
    with pytest.raises(TelemetryLost, match=r"cannot be read.*(says nothing|no answer)"):
        rest.require_clean(cards.devices())
    with pytest.raises(Quarantined, match=r"after trial 3.*(says nothing|no answer)"):
        rest.prove_back(cards.devices(), "trial 3")
    assert list(ledger.quarantined()) == ["GPU-0"]


def test_a_wedged_card_is_quarantined_before_anything_is_started_on_it(ledger: Ledger) -> None:
    known(ledger)
    cards = FakeCards(
        steady(IDLE), utilization=100.0, sm_clock=25.0, temperature=0.0, power=65535.0
    )
    rest = Rest(ledger, cards, FAST)
    with pytest.raises(Quarantined, match="GPU-0: Card is sick: it is wedged"):
        rest.require_clean(cards.devices())
    assert "GPU-0" in ledger.quarantined()


def test_a_host_in_quarantine_refuses_everything(ledger: Ledger) -> None:
    ledger.quarantine("host", "trial 2: still running: pid 7")
    with pytest.raises(Quarantined, match="host: trial 2: still running: pid 7"):
        Rest(ledger, FakeCards(), FAST).require_clean(())


# --- whole studies -------------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "PACE", FAST)
    return World(tmp_path, {"budget": {"trials": 2}}, container={"gpus": "all"}).make()


def run(
    world: World, cards: FakeCards, monkeypatch: pytest.MonkeyPatch, *watchers: Watcher
) -> None:
    monkeypatch.setattr(session, "detect", lambda: Detection(cards))
    with Ledger(world.state, write=True) as ledger:
        row = enter_study(ledger, load_space(world.space), world.space)
        work(ledger, row, watchers=watchers, wishes=Wishes(threading.Event()))


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
def test_a_study_whose_device_keeps_its_memory_stops_and_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = FakeCards(lambda at: IDLE if at < 4 else 12 * GIB)
    with pytest.raises(Quarantined, match=r"after trial 0 of study fake: Card GPU-0: 11\.7 GiB"):
        run(world, cards, monkeypatch)
    with Ledger(world.state, write=False) as ledger:
        (trial,) = ledger.trials(1)
        assert trial.stage is Stage.STOPPING
        assert trial.metrics is not None
        assert ledger.open_launches() == []  # its processes are gone; its memory is not
        assert ledger.study("fake").status == "failed"
        assert [e.kind for e in ledger.events(1)].count("quarantine") == 1
    with pytest.raises(Quarantined, match="nothing is started"):
        run(world, FakeCards(steady(IDLE)), monkeypatch)
    with Ledger(world.state, write=True) as ledger:
        assert [t.attempt for t in ledger.trials(1)] == [1, 0]
        ledger.release("GPU-0")
    run(world, FakeCards(steady(IDLE)), monkeypatch)
    with Ledger(world.state, write=False) as ledger:
        first, second = ledger.trials(1)
        assert (first.stage, first.verdict, first.attempt) == (Stage.TOLD, "healthy", 1)
        assert second.stage is Stage.TOLD


def measured(world: World, cards: FakeCards, monkeypatch: pytest.MonkeyPatch) -> TrialRow:
    """The one trial of a study that sees the first card alone."""
    world = replace(world, changes={"budget": {"trials": 1}})
    replace(world, recipe_env={"CUDA_VISIBLE_DEVICES": "0"}).make()
    with contextlib.suppress(NothingFeasible):
        run(world, cards, monkeypatch)
    with Ledger(world.state, write=False) as ledger:
        return ledger.trials(1)[0]


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
def test_a_strangers_full_card_says_nothing_of_a_trial(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = measured(world, FakeCards(steady(IDLE), steady(TOTAL - MIB)), monkeypatch)
    assert trial.feasible
    (kept,) = world.state.rglob("telemetry.jsonl")
    assert {d.key for sample in read_samples(kept) for d in sample.devices or ()} == {"GPU-0"}


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
def test_a_card_that_was_nearly_full_before_the_load_began_is_below_the_floor(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_of_the_watch = 4  # after those that look whether the card is at rest
    cards = FakeCards(lambda at: TOTAL - 100 * MIB if at == first_of_the_watch else IDLE)
    trial = measured(world, cards, monkeypatch)
    assert (trial.verdict, trial.feasible) == ("healthy", False)
    assert trial.metrics is not None
    assert "GPU-0: 100.0 MiB free at the worst moment" in trial.metrics["memory_floor"][0]


class OnBus(FakeCards):
    """Cards whose PCI addresses are known."""

    def devices(self) -> list[DeviceInfo]:
        return [replace(d, bus_id=f"00000000:{0x3B + d.index:x}:00.0") for d in super().devices()]


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
def test_a_device_that_falls_ill_under_load_stops_the_study_with_its_reason(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = tmp_path / "kmsg"
    said.touch()
    monkeypatch.setattr(kernel_log, "KMSG", said)

    def break_down(what: Happening) -> None:
        if what.kind == "stage" and what.data["stage"] == "measured":
            said.write_text("4,9,9,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=7, DBE\n")

    cards = OnBus(steady(IDLE))
    why = r"(?s)stops at trial 0, sick_device.*Xid 48: double-bit memory error.*tuner resume fake"
    with pytest.raises(NeedsMending, match=why):
        run(world, cards, monkeypatch, break_down)
    with Ledger(world.state, write=True) as ledger:
        (trial,) = ledger.trials(1)
        assert (trial.stage, trial.verdict, trial.feasible) == (Stage.VERIFIED, SICK, False)
        assert trial.value is None  # nothing was learned of its point
        assert ledger.study("fake").status == "failed"
        assert "Xid 48" in ledger.quarantined()["GPU-0"]
    with pytest.raises(Quarantined, match="Xid 48"):
        run(world, cards, monkeypatch)
    with Ledger(world.state, write=True) as ledger:
        ledger.release("GPU-0")
    run(world, cards, monkeypatch)
    with Ledger(world.state, write=False) as ledger:
        trial = ledger.trials(1)[0]
        assert (trial.stage, trial.verdict, trial.attempt) == (Stage.TOLD, "healthy", 2)


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
def test_a_study_that_finds_a_sick_card_says_so_and_starts_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Happening] = []
    wedged = FakeCards(
        steady(IDLE), utilization=100.0, sm_clock=25.0, temperature=0.0, power=65535.0
    )
    for _ in range(2):
        with pytest.raises(Quarantined, match="GPU-0: Card is sick"):
            run(world, wedged, monkeypatch, heard.append)
    with Ledger(world.state, write=False) as ledger:
        (event,) = ledger.events(kinds=["quarantine"])
        assert event.number == 0
        assert event.data["device"] == "GPU-0"
        assert event.data["reason"].startswith("Card is sick: it is wedged")
        assert ledger.open_launches() == []
    (told,) = (what for what in heard if what.kind == "quarantine")
    assert (told.number, told.data) == (event.number, event.data)


@pytest.mark.xdist_group("engines")
def test_a_machine_with_device_files_and_no_driver_starts_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").touch()
    monkeypatch.setattr(module, "_DEV", tmp_path / "dev")
    with pytest.raises(TelemetryLost, match=r"nvidia0, but no driver.*tuner doctor"):
        run(world, FakeCards(), monkeypatch)


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
def test_a_start_is_told_that_its_devices_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start in which only a device works, say while it fills, is not one in which nothing moves."""
    seen: list[float] = []

    def patient(*given: Any, worked: Callable[[], float], **more: Any) -> Waited:
        until = time.monotonic() + 20
        while worked() < 0 and time.monotonic() < until:
            time.sleep(0.05)
        seen.append(worked())
        return await_ready(*given, worked=worked, **more)

    monkeypatch.setattr(runner, "await_ready", patient)
    run(world, FakeCards(steady(IDLE), utilization=3.0), monkeypatch)
    assert seen
    assert all(at > 0 for at in seen)

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.devices import GIB, MIB, TOTAL, FakeCards, steady
from tuner.errors import TelemetryLost
from tuner.launch.identity import boot_id
from tuner.store.ledger import Ledger
from tuner.store.locks import Hold
from tuner.store.rows import BaselineRow
from tuner.telemetry.detect import Detection
from tuner.telemetry.samples import NoDevices
from tuner.trial import rest
from tuner.trial.care import devices
from tuner.trial.care.finding import Level
from tuner.trial.leases import lease_file
from tuner.trial.sampling import Pace

FAST = Pace(patience=0.2, step=0.01, answer=5.0)
IDLE = 300 * MIB


@pytest.fixture(autouse=True)
def no_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "dev"
    folder.mkdir()
    monkeypatch.setattr(rest, "_DEV", folder)
    return folder


@pytest.fixture
def known(ledger: Ledger) -> Ledger:
    ledger.keep_baseline(BaselineRow("GPU-0", boot_id(), "Card", IDLE, TOTAL))
    return ledger


def test_a_machine_without_devices() -> None:
    (found,) = devices.look_at_devices(None, Detection(NoDevices()))
    assert found.level is Level.OK


def test_device_files_that_no_driver_shows(no_nodes: Path) -> None:
    (no_nodes / "iluvatar0").touch()
    (found,) = devices.look_at_devices(None, Detection(NoDevices(), ("ixsmi is not here",)))
    assert found.level is Level.BAD
    assert "iluvatar0, but nothing says what they hold: ixsmi is not here" in found.said


def test_a_driver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: FakeCards) -> None:
        raise TelemetryLost("NVML says: driver not loaded")

    monkeypatch.setattr(FakeCards, "devices", lost)
    (found,) = devices.look_at_devices(None, Detection(FakeCards()))
    assert (found.level, "driver not loaded" in found.said) == (Level.BAD, True)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_card_at_rest(known: Ledger, *, recorded: bool) -> None:
    cards = FakeCards(steady(IDLE))
    (found,) = devices.look_at_devices(known if recorded else None, Detection(cards), FAST)
    assert (found.level, found.said) == (Level.OK, "Card GPU-0 is at rest")


@pytest.mark.parametrize("recorded", [True, False])
def test_a_dirty_card_and_who_holds_it(known: Ledger, no_nodes: Path, *, recorded: bool) -> None:
    node = no_nodes / "nvidia0"
    cards = FakeCards(steady(20 * GIB))
    with node.open("w"):
        (found,) = devices.look_at_devices(known if recorded else None, Detection(cards), FAST)
    assert found.level is Level.BAD
    assert ("above its baseline" if recorded else "before anything of ours") in found.said
    assert f"pid {os.getpid()}" in str(found.mend)
    assert "tuner clean --accept-baseline" in str(found.mend)


def test_a_dirty_card_that_nobody_here_holds(known: Ledger) -> None:
    (found,) = devices.look_at_devices(known, Detection(FakeCards(steady(20 * GIB))), FAST)
    assert "another user" in str(found.mend)


def test_a_sick_card(known: Ledger) -> None:
    cards = FakeCards(steady(IDLE), temperature=120.0)
    (found,) = devices.look_at_devices(known, Detection(cards), FAST)
    assert (found.level, "too hot: 120 C" in found.said) == (Level.BAD, True)
    assert "dmesg" in str(found.mend)


def test_a_card_that_cannot_be_read(known: Ledger) -> None:
    cards = FakeCards(steady(IDLE))
    cards.lost_from = 0
    (found,) = devices.look_at_devices(known, Detection(cards), FAST)
    assert found.level is Level.BAD
    assert "says nothing" in found.said


def test_a_card_that_a_study_works_with_is_left_alone(known: Ledger) -> None:
    cards = FakeCards(steady(20 * GIB))
    with Hold(lease_file("GPU-0"), {"study": "other"}):
        (found,) = devices.look_at_devices(known, Detection(cards), FAST)
    assert (found.level, cards.asked) == (Level.OK, 0)
    assert f"process {os.getpid()} works with it" in found.said


def test_quarantine_is_explained(ledger: Ledger) -> None:
    assert devices.look_at_quarantine(None) == devices.look_at_quarantine(ledger) == []
    ledger.quarantine("GPU-0", "after trial 3: 20 GiB above its baseline")
    (found,) = devices.look_at_quarantine(ledger)
    assert found.level is Level.BAD
    assert "nothing is started on GPU-0: after trial 3: 20 GiB above" in found.said
    assert "tuner clean" in str(found.mend)


def test_baselines_of_this_boot_are_told(known: Ledger) -> None:
    assert devices.look_at_baselines(None, boot_id()) == []
    (found,) = devices.look_at_baselines(known, boot_id())
    assert found.said == "Card GPU-0 holds 300 MiB at rest"

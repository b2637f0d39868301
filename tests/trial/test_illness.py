from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.devices import TOTAL
from tuner.telemetry import kernel_log
from tuner.telemetry.samples import DeviceInfo, DeviceSample, Sample
from tuner.trial.illness import Illness
from tuner.verdict import DeviceFacts, Evidence, Verdict, judge

OURS = DeviceInfo(0, "GPU-0", "00000000:3b:00.0", "Card", TOTAL)
FACTS = (DeviceFacts("Card GPU-0", baseline=1, before=1, total=TOTAL),)
WELL = DeviceSample(0, uuid="GPU-0", temperature=60)
HOT = replace(WELL, temperature=97)


@pytest.fixture(autouse=True)
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    said = tmp_path / "kmsg"
    said.touch()
    monkeypatch.setattr(kernel_log, "KMSG", said)
    return said


def sample(*devices: DeviceSample, lost: bool = False) -> Sample:
    return Sample(0.0, "measure", host=None, tree=None, devices=None if lost else devices)


def test_a_card_that_is_too_hot_under_load_is_sick() -> None:
    illness = Illness([OURS])
    for _ in range(5):
        illness.hear(sample(HOT))
        illness.hear(sample(lost=True))  # a source that says nothing says nothing of a card
    (facts,) = illness.conclude(FACTS)
    assert facts.sick == ("it is too hot: 97 C",)
    assert judge(Evidence(devices=(facts,))).verdict is Verdict.SICK_DEVICE


def test_a_healthy_card_and_what_was_known_of_it_stay_as_they_were() -> None:
    illness = Illness([OURS])
    for _ in range(5):
        illness.hear(sample(WELL))
    assert illness.conclude(FACTS) == FACTS


def test_the_kernel_tells_of_our_card_alone(kernel: Path) -> None:
    illness, other = Illness([OURS]), Illness([replace(OURS, bus_id="00000000:86:00.0")])
    nowhere = Illness([replace(OURS, bus_id=None)])
    kernel.write_text("4,9,9,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=7, DBE\n")
    assert illness.conclude(FACTS)[0].sick == ("Xid 48: double-bit memory error",)
    assert other.conclude(FACTS) == nowhere.conclude(FACTS) == FACTS


def test_a_strangers_sick_card_is_not_our_trials() -> None:
    illness = Illness([OURS])
    for _ in range(5):
        illness.hear(sample(WELL, replace(HOT, uuid="GPU-1")))
    assert illness.conclude(FACTS) == FACTS


def test_an_engine_without_devices_has_none_that_are_sick(kernel: Path) -> None:
    illness = Illness([])
    for _ in range(5):
        illness.hear(sample(HOT))
    assert illness.conclude(()) == ()

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.telemetry.ixsmi_text import parse_table
from tuner.telemetry.samples import DeviceSample
from tuner.telemetry.sick import Ailing, sickness, xid_fault

WELL = DeviceSample(
    0, uuid="GPU-a", memory_used=2**28, memory_total=2**35, utilization=100, power=240,
    temperature=71, sm_clock=1500, memory_clock=1200,
)  # fmt: skip
TABLE = Path(__file__).parent.parent / "data" / "ixsmi" / "table_3_0_1.txt"


def reasons(sample: DeviceSample, *, idle: bool = False) -> dict[str, str]:
    return sickness([[sample], [sample]], idle=idle)


def test_the_wedged_card_of_the_table() -> None:
    samples = parse_table(TABLE.read_text())
    found = sickness([samples, samples])
    assert list(found) == ["00000000:21:00.0"]
    assert "wedged: 100 % busy at 25 MHz, 0 C, 65535 W" in found["00000000:21:00.0"]


def test_a_busy_healthy_card_is_not_sick() -> None:
    assert reasons(WELL) == {}


@pytest.mark.parametrize(
    "idle_card",
    [
        replace(
            WELL, utilization=0, sm_clock=25, memory_clock=33, power=12
        ),  # resting at low clocks
        replace(WELL, utilization=None, sm_clock=None, power=None, temperature=None),
        replace(WELL, temperature=0, utilization=0),  # a sensor that is not there reads 0
    ],
)
def test_a_resting_card_is_not_sick(idle_card: DeviceSample) -> None:
    assert reasons(idle_card, idle=True) == {}


def test_busy_with_nothing_running_is_stuck() -> None:
    assert reasons(WELL) == {}
    assert "stuck" in reasons(WELL, idle=True)["GPU-a"]


def test_heat_and_loss() -> None:
    assert "too hot: 97 C" in reasons(replace(WELL, temperature=97))["GPU-a"]
    assert "GPU is lost" in reasons(replace(WELL, error="GPU is lost"))["GPU-a"]


def test_one_odd_sample_is_no_illness() -> None:
    odd = replace(WELL, power=65535)
    assert sickness([[odd], [WELL]]) == {}
    assert sickness([[WELL], [odd]]) == {}
    assert sickness([]) == {}


HOT = replace(WELL, temperature=97)


def test_a_card_that_ails_for_some_samples_on_end_is_remembered() -> None:
    ailing = Ailing(rounds=3)
    for sample in (HOT, HOT, WELL, HOT, HOT):
        ailing.add([sample, replace(WELL, uuid="GPU-b")])
        assert ailing.found == {}
    ailing.add([HOT])
    ailing.add([WELL])
    assert list(ailing.found) == ["GPU-a"]
    assert "too hot" in ailing.found["GPU-a"]


def test_kernel_lines() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    assert xid_fault(line) == ("00000000:3b:00", "Xid 79: the card has fallen off the bus")
    assert xid_fault("NVRM: Xid (PCI:0000:3b:00): 31, pid=7, MMU Fault") is None
    assert xid_fault("a user's prompt about Xid 79") is None

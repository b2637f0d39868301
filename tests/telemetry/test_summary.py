import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.telemetry.samples import DeviceSample, HostSample, Sample, TreeSample
from tuner.telemetry.summary import Stat, Summary, summarise


def device(util: float | None, used: int | None = 10, *, error: str | None = None) -> DeviceSample:
    return DeviceSample(
        0, uuid="u", name="card", memory_used=used, memory_total=100, utilization=util, error=error
    )


def moments(*devices: tuple[DeviceSample, ...] | None, period: float = 1.0) -> list[Sample]:
    return [
        Sample(at=number * period, stage="measure", host=None, tree=None, devices=each)
        for number, each in enumerate(devices)
    ]


def summary(*devices: tuple[DeviceSample, ...] | None) -> Summary:
    return summarise(moments(*devices), period=1.0)


def test_mean_least_and_most() -> None:
    found = summary((device(20, 10),), (device(40, 95),), (device(60, 30),)).devices[0]
    assert found.utilization == Stat(mean=40, low=20, high=60, count=3)
    assert found.least_free == 5
    assert found.memory_used == Stat(45, 10, 95, 3)
    assert (found.samples, found.missing, found.name) == (3, 0, "card")


def test_unknown_is_never_zero() -> None:
    found = summary((device(None, None),), (device(50, None),), (device(None, None),)).devices[0]
    assert found.utilization == Stat(50, 50, 50, 1)
    assert found.memory_used is None
    assert found.least_free is None
    assert found.power is None
    nothing = summary((device(None),)).devices[0]
    assert nothing.utilization is None
    assert nothing.idle_seconds is None


def test_idle_time_is_counted_in_seconds() -> None:
    found = summary((device(0),), (device(0),), (device(90),), (device(4.9),)).devices[0]
    assert (found.idle_seconds, found.known_seconds) == (2, 3)


def test_a_long_gap_is_not_idle_time() -> None:
    samples = moments((device(0),), (device(0),))
    late = Sample(at=1000, stage="measure", host=None, tree=None, devices=(device(0),))
    found = summarise([*samples, late], period=1.0).devices[0]
    assert found.idle_seconds == 1 + 3


def test_a_source_that_failed_is_a_gap() -> None:
    gap = Sample(1, "measure", None, None, None, gap="driver gone")
    found = summarise([*moments((device(5),)), gap, gap], period=1.0)
    assert (found.samples, found.gaps, found.gap_reasons) == (3, 2, ("driver gone",))
    assert found.devices[0].missing == 0


def test_a_card_that_vanishes_is_missing() -> None:
    found = summary((device(5),), (), (device(5, error="lost"),), (device(5),)).devices[0]
    assert (found.samples, found.missing) == (2, 2)


def test_a_stage_alone() -> None:
    samples = [
        Sample(0, "warm", None, None, (device(90),)),
        Sample(1, "measure", None, None, (device(10),)),
    ]
    found = summarise(samples, period=1.0, stage="measure")
    assert found.samples == 1
    assert found.devices[0].utilization == Stat(10, 10, 10, 1)


def test_host_and_tree() -> None:
    samples = [
        Sample(n, "m", HostSample(cpu, 100 - n, 200), TreeSample(n + 1, 50, None, cpu_s), ())
        for n, (cpu, cpu_s) in enumerate([(None, 3.0), (50.0, 4.5), (70.0, 1.0), (60.0, 2.0)])
    ]
    found = summarise(samples, period=1.0)
    assert found.host_cpu == Stat(60, 50, 70, 3)
    assert found.host_available == Stat(98.5, 97, 100, 4)
    assert found.tree_processes == Stat(2.5, 1, 4, 4)
    assert found.tree_pss is None
    assert found.tree_cpu_seconds == pytest.approx(1.5 + 0 + 1.0), "a process that ended is no gain"
    assert found.seconds == 3


def test_nothing_at_all() -> None:
    found = summarise([], period=1.0)
    assert (found.seconds, found.samples, found.devices, found.host_cpu) == (0, 0, (), None)
    assert found.as_json()["tree_cpu_seconds"] is None


@given(st.lists(st.none() | st.floats(0, 100), min_size=1, max_size=30))
def test_the_mean_lies_between_the_extremes(values: list[float | None]) -> None:
    found = summary(*[(device(value),) for value in values]).devices[0].utilization
    known = [value for value in values if value is not None]
    if not known:
        assert found is None
        return
    assert found is not None
    assert (found.low, found.high, found.count) == (min(known), max(known), len(known))
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9

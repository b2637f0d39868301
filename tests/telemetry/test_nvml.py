import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.errors import TelemetryLost
from tuner.telemetry.nvml import NvmlSource

GIB = 2**30


class NVMLError(Exception):
    def __init__(self, value: int, text: str = "error") -> None:
        self.value = value
        super().__init__(text)


def library(**faults: Exception) -> SimpleNamespace:
    """Something like pynvml with two cards; `faults` say what the second card's call raises."""

    def answer(value: Any, fault: str = "") -> Callable[..., Any]:
        def call(*arguments: int) -> Any:
            if fault in faults and (not arguments or arguments[0] == 1):
                raise faults[fault]
            return value(*arguments) if callable(value) else value

        return call

    memory = SimpleNamespace(total=80 * GIB, free=78 * GIB, used=1 * GIB)
    made = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_ERROR_NOT_SUPPORTED=3,
        NVML_TEMPERATURE_GPU=0,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        nvmlInit=answer(None, "init"),
        nvmlShutdown=answer(None),
        nvmlSystemGetDriverVersion=answer("570.1"),
        nvmlDeviceGetCount=answer(2, "count"),
        nvmlDeviceGetHandleByIndex=answer(lambda index: index, "handle"),
        nvmlDeviceGetMemoryInfo=answer(memory, "memory"),
        nvmlDeviceGetUtilizationRates=answer(SimpleNamespace(gpu=29, memory=5), "rates"),
        nvmlDeviceGetPowerUsage=answer(123_456),
        nvmlDeviceGetTemperature=answer(41),
        nvmlDeviceGetName=answer(b"NVIDIA H100"),
        nvmlDeviceGetUUID=answer(lambda handle: f"GPU-{handle}"),
        nvmlDeviceGetPciInfo=answer(SimpleNamespace(busId=b"00000000:3B:00.0")),
        nvmlDeviceGetClockInfo=answer(lambda _, which: {1: 1980, 2: 2619}[which]),
    )
    made.closed = []
    made.nvmlShutdown = lambda: made.closed.append(True)
    return made


def test_a_healthy_card() -> None:
    first = NvmlSource(library()).sample()[0]
    assert (first.uuid, first.bus_id, first.name) == ("GPU-0", "00000000:3b:00.0", "NVIDIA H100")
    assert (first.utilization, first.power, first.temperature) == (29, 123.456, 41)
    assert (first.sm_clock, first.memory_clock) == (1980, 2619)
    assert first.error is None


def test_what_is_not_free_is_used() -> None:
    """The driver's reserve is in neither `free` nor the newer interface's `used`."""
    first = NvmlSource(library()).sample()[0]
    assert first.memory_used == 2 * GIB
    assert first.memory_free == 78 * GIB


def test_a_value_that_is_not_supported_is_unknown_not_zero() -> None:
    second = NvmlSource(library(rates=NVMLError(3), memory=NVMLError(3))).sample()[1]
    assert (second.utilization, second.memory_used, second.error) == (None, None, None)


def test_a_lost_card_is_an_error_of_that_card_alone() -> None:
    first, second = NvmlSource(library(memory=NVMLError(15, "GPU is lost"))).sample()
    assert first.error is None
    assert second.error == "NVML: GPU is lost"
    lost = NvmlSource(library(handle=NVMLError(15, "GPU is lost"))).sample()[1]
    assert lost.error == "NVML: GPU is lost"
    assert lost.memory_used is None


def test_a_driver_that_does_not_answer() -> None:
    with pytest.raises(TelemetryLost, match="does not answer"):
        NvmlSource(library(count=NVMLError(999))).sample()
    with pytest.raises(TelemetryLost, match="does not start"):
        NvmlSource(library(init=NVMLError(9, "Driver Not Loaded")))


def test_devices_and_close() -> None:
    binding = library()
    source = NvmlSource(binding)
    info = source.devices()[1]
    assert (info.key, info.memory_total, info.driver) == ("GPU-1", 80 * GIB, "570.1")
    source.close()
    assert binding.closed == [True]
    assert source.cpu_seconds() == 0


def test_the_real_binding_has_every_name_that_is_used() -> None:
    pynvml = pytest.importorskip("pynvml")
    used = [name for name in vars(library()) if name.startswith(("nvml", "NVML"))]
    assert len(used) > 12
    assert [name for name in used if not hasattr(pynvml, name)] == []
    assert pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED).value == 3


def test_a_host_without_the_binding_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(TelemetryLost, match="cannot be imported"):
        NvmlSource()

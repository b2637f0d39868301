"""Devices as NVIDIA's management library shows them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tuner.errors import TelemetryLost
from tuner.telemetry.samples import DeviceInfo, DeviceSample, normal_bus_id

__all__ = ["NvmlSource"]


class NvmlSource:
    """Samples through NVML (``nvidia-ml-py``).

    Args:
        library: The ``pynvml`` module, or something that behaves like it. None imports it.

    Raises:
        TelemetryLost: When the library or the driver is missing or does not start.
    """

    kind = "nvml"

    def __init__(self, library: Any = None) -> None:
        self._nvml = _import() if library is None else library
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as problem:
            raise TelemetryLost(f"NVML does not start: {problem}") from problem

    def devices(self) -> list[DeviceInfo]:
        """All devices of the driver, those hidden from CUDA by the environment included."""
        driver = self._read(self._nvml.nvmlSystemGetDriverVersion)
        return [
            DeviceInfo(
                index=each.index,
                uuid=each.uuid,
                bus_id=each.bus_id,
                name=each.name,
                memory_total=each.memory_total,
                driver=None if driver is None else _text(driver),
            )
            for each in self.sample()
        ]

    def sample(self) -> list[DeviceSample]:
        """One sample of each device."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as problem:
            raise TelemetryLost(f"NVML does not answer: {problem}") from problem
        return [self._one(index) for index in range(count)]

    def cpu_seconds(self) -> float:
        """NVML runs inside this process; no helper program is started."""
        return 0.0

    def close(self) -> None:
        """Shut the library down."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _one(self, index: int) -> DeviceSample:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as problem:
            return DeviceSample(index=index, error=f"NVML: {problem}")
        memory, error = self._memory(handle)
        rates = self._read(nvml.nvmlDeviceGetUtilizationRates, handle)
        milliwatts = self._read(nvml.nvmlDeviceGetPowerUsage, handle)
        celsius = self._read(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        name = self._read(nvml.nvmlDeviceGetName, handle)
        uuid = self._read(nvml.nvmlDeviceGetUUID, handle)
        pci = self._read(nvml.nvmlDeviceGetPciInfo, handle)
        return DeviceSample(
            index=index,
            uuid=None if uuid is None else _text(uuid),
            bus_id=None if pci is None else normal_bus_id(_text(pci.busId)),
            name="" if name is None else _text(name),
            memory_used=None if memory is None else int(memory.total) - int(memory.free),
            memory_total=None if memory is None else int(memory.total),
            utilization=None if rates is None else float(rates.gpu),
            power=None if milliwatts is None else milliwatts / 1000,
            temperature=None if celsius is None else float(celsius),
            sm_clock=self._clock(handle, nvml.NVML_CLOCK_SM),
            memory_clock=self._clock(handle, nvml.NVML_CLOCK_MEM),
            error=error,
        )

    def _memory(self, handle: Any) -> tuple[Any, str | None]:
        """The memory of a device; a card that cannot say it is lost, not merely modest.

        Cards that share the host's memory answer "not supported", which is no fault.
        """
        try:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle), None
        except self._nvml.NVMLError as problem:
            if getattr(problem, "value", None) == self._nvml.NVML_ERROR_NOT_SUPPORTED:
                return None, None
            return None, f"NVML: {problem}"

    def _clock(self, handle: Any, which: int) -> float | None:
        mhz = self._read(self._nvml.nvmlDeviceGetClockInfo, handle, which)
        return None if mhz is None else float(mhz)

    def _read(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except self._nvml.NVMLError:
            return None


def _import() -> Any:
    try:
        import pynvml  # noqa: PLC0415 — a host without NVIDIA's library must still start
    except ImportError as problem:
        raise TelemetryLost(f"nvidia-ml-py cannot be imported: {problem}") from problem
    return pynvml


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

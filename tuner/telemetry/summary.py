"""What a watch saw, in a few numbers: for each device and for the host, by stage of the trial."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from tuner.telemetry.samples import DeviceSample, Sample

__all__ = ["DeviceSummary", "Stat", "Summary", "SummaryBuilder", "summarise"]

IDLE_BELOW = 5.0
"""Percent of utilization below which a device counts as idle."""


@dataclass(frozen=True, slots=True)
class Stat:
    """A value over time.

    Attributes:
        mean: Plain mean over the samples in which it was known.
        low: The least of them.
        high: The greatest of them.
        count: In how many samples it was known; at least one.
    """

    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """One device over a stage. A value that was never known is None.

    Attributes:
        key: What identifies the card.
        index: Its number when it was last seen.
        name: The model of the card.
        samples: In how many samples it was there.
        missing: In how many samples, of those with an answer of the source, it was not there or
            could not be read.
        memory_total: Bytes of device memory.
        least_free: Bytes that were free at the worst moment.
        idle_seconds: Seconds in which utilization was below 5 %; gaps count for nothing.
        known_seconds: Seconds for which utilization is known.
        memory_used: Bytes.
        utilization: Percent.
        power: Watts.
        temperature: Degrees Celsius.
        sm_clock: MHz.
        memory_clock: MHz.
    """

    key: str
    index: int
    name: str
    samples: int
    missing: int
    memory_total: int | None
    least_free: int | None
    idle_seconds: float | None
    known_seconds: float
    memory_used: Stat | None
    utilization: Stat | None
    power: Stat | None
    temperature: Stat | None
    sm_clock: Stat | None
    memory_clock: Stat | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a watch saw of one stage, or of all.

    Attributes:
        seconds: From the first sample of the stage to the last.
        samples: How many moments were sampled.
        gaps: How many of them lacked something.
        gap_reasons: The distinct reasons, the first eight.
        devices: One entry for each card, in the order of their numbers.
        host_cpu: Percent of all cores.
        host_available: Bytes of host memory that could still be had.
        tree_rss: Bytes resident in the engine's processes.
        tree_pss: Bytes of their proportional sets.
        tree_processes: How many processes the engine had.
        tree_cpu_seconds: CPU time that the engine's processes used during the stage, as far as they
            were alive at both of two successive samples.
    """

    seconds: float
    samples: int
    gaps: int
    gap_reasons: tuple[str, ...]
    devices: tuple[DeviceSummary, ...]
    host_cpu: Stat | None
    host_available: Stat | None
    tree_rss: Stat | None
    tree_pss: Stat | None
    tree_processes: Stat | None
    tree_cpu_seconds: float | None

    def as_json(self) -> dict[str, Any]:
        """The summary as JSON-ready data."""
        return asdict(self)


@dataclass(slots=True)
class _Running:
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is None:
            return
        self.total += value
        self.low = min(self.low, value)
        self.high = max(self.high, value)
        self.count += 1

    def stat(self) -> Stat | None:
        if self.count == 0:
            return None
        return Stat(self.total / self.count, self.low, self.high, self.count)


_DEVICE_VALUES = (
    "memory_used", "utilization", "power", "temperature", "sm_clock", "memory_clock",
)  # fmt: skip


@dataclass(slots=True)
class _RunningDevice:
    index: int = 0
    name: str = ""
    samples: int = 0
    memory_total: int | None = None
    free: _Running = field(default_factory=_Running)
    idle: float = 0.0
    known: float = 0.0
    values: dict[str, _Running] = field(
        default_factory=lambda: {name: _Running() for name in _DEVICE_VALUES}
    )

    def add(self, sample: DeviceSample, seconds: float) -> None:
        self.index, self.name = sample.index, sample.name or self.name
        self.memory_total = sample.memory_total or self.memory_total
        if sample.error is None:
            self.samples += 1
        self.free.add(sample.memory_free)
        for name, running in self.values.items():
            running.add(getattr(sample, name))
        if sample.utilization is not None:
            self.known += seconds
            if sample.utilization < IDLE_BELOW:
                self.idle += seconds


class SummaryBuilder:
    """Takes samples one by one in the order of time, in memory that does not grow with them.

    Args:
        period: Seconds between samples as planned. A longer distance is a gap: of it, only three
            periods count as time for which the state is known.
    """

    def __init__(self, period: float) -> None:
        self._limit = 3 * period
        self._first: float | None = None
        self._last = 0.0
        self._samples = self._gaps = self._answers = 0
        self._reasons: dict[str, None] = {}
        self._devices: dict[str, _RunningDevice] = {}
        self._host_cpu, self._available = _Running(), _Running()
        self._rss, self._pss, self._processes = _Running(), _Running(), _Running()
        self._cpu: float | None = None
        self._cpu_used: float | None = None

    def add(self, sample: Sample) -> None:
        """Take one sample."""
        step = 0.0 if self._first is None else max(0.0, sample.at - self._last)
        if self._first is None:
            self._first = sample.at
        self._last = sample.at
        self._samples += 1
        if sample.gap is not None:
            self._gaps += 1
            if len(self._reasons) < 8:
                self._reasons.setdefault(sample.gap)
        if sample.devices is not None:
            self._answers += 1
            for each in sample.devices:
                device = self._devices.setdefault(each.key, _RunningDevice())
                device.add(each, min(step, self._limit))
        self._add_host(sample)

    def _add_host(self, sample: Sample) -> None:
        if sample.host is not None:
            self._host_cpu.add(sample.host.cpu)
            self._available.add(sample.host.memory_available)
        if sample.tree is not None:
            self._rss.add(sample.tree.rss)
            self._pss.add(sample.tree.pss)
            self._processes.add(sample.tree.processes)
            if self._cpu is not None:
                used = max(0.0, sample.tree.cpu_seconds - self._cpu)
                self._cpu_used = (self._cpu_used or 0.0) + used
            self._cpu = sample.tree.cpu_seconds

    def result(self) -> Summary:
        """The summary of what was taken so far."""
        return Summary(
            seconds=0.0 if self._first is None else self._last - self._first,
            samples=self._samples,
            gaps=self._gaps,
            gap_reasons=tuple(self._reasons),
            devices=tuple(
                self._device(key, each)
                for key, each in sorted(self._devices.items(), key=lambda pair: pair[1].index)
            ),
            host_cpu=self._host_cpu.stat(),
            host_available=self._available.stat(),
            tree_rss=self._rss.stat(),
            tree_pss=self._pss.stat(),
            tree_processes=self._processes.stat(),
            tree_cpu_seconds=self._cpu_used,
        )

    def _device(self, key: str, seen: _RunningDevice) -> DeviceSummary:
        stats = {name: running.stat() for name, running in seen.values.items()}
        least = seen.free.stat()
        return DeviceSummary(
            key=key,
            index=seen.index,
            name=seen.name,
            samples=seen.samples,
            missing=self._answers - seen.samples,
            memory_total=seen.memory_total,
            least_free=None if least is None else int(least.low),
            idle_seconds=None if stats["utilization"] is None else seen.idle,
            known_seconds=seen.known,
            **stats,
        )


def summarise(samples: Iterable[Sample], *, period: float, stage: str | None = None) -> Summary:
    """The summary of samples that were kept, of one stage or of all.

    Args:
        samples: In the order of time.
        period: Seconds between samples as planned.
        stage: Which stage to take; None takes all.
    """
    builder = SummaryBuilder(period)
    for sample in samples:
        if stage is None or sample.stage == stage:
            builder.add(sample)
    return builder.result()

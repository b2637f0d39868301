"""The watch: a thread that samples while a trial runs, and never gets in its way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import psutil

from tuner.errors import TelemetryLost
from tuner.telemetry.host import EngineTree, HostSampler
from tuner.telemetry.samples import DeviceSource, Sample
from tuner.telemetry.summary import Summary, SummaryBuilder

__all__ = ["Cost", "Watch", "read_samples"]

_STOP_WAIT = 15.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What watching itself took.

    Attributes:
        cpu_seconds: CPU time of the sampling thread and of the programs that the source ran.
        wall_seconds: How long the watch lasted.
        samples: How many samples it took.
    """

    cpu_seconds: float
    wall_seconds: float
    samples: int

    @property
    def share(self) -> float:
        """CPU time as a share of one core."""
        return self.cpu_seconds / self.wall_seconds if self.wall_seconds > 0 else 0.0


class Watch:
    """Samples devices, host and engine at a steady rate, writes each sample as a line of JSON.

    Nothing that goes wrong inside reaches the trial: what cannot be read or written becomes a gap
    with its reason, in the samples and in the summary.

    Args:
        source: Where samples of devices come from. It is used from the watch's thread alone while
            the watch runs; the caller closes it afterwards.
        path: The JSON lines file, appended to; None keeps no samples.
        rate: Samples a second, 1 to 5 by habit.
        tree: The engine's processes.
        on_sample: Called with each sample in the watch's thread, for a guard of the memory floor.
    """

    def __init__(
        self,
        source: DeviceSource,
        *,
        path: Path | None = None,
        rate: float = 2.0,
        tree: EngineTree | None = None,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> None:
        if not 0.05 <= rate <= 20:
            raise ValueError(f"a rate of {rate:g} samples a second is not between 0.05 and 20")
        self._source, self._path, self._period = source, path, 1 / rate
        self._tree = tree if tree is not None else EngineTree()
        self._host = HostSampler()
        self._on_sample = on_sample
        self._stage = "start"
        self._new_roots: list[int] = []
        self._lock = threading.Lock()
        self._whole = SummaryBuilder(self._period)
        self._stages: dict[str, SummaryBuilder] = {}
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tuner-watch", daemon=True)
        self._began = 0.0
        self._ended: float | None = None
        self._thread_cpu = 0.0
        self._helper_cpu_before = 0.0
        self._helper_cpu = 0.0
        self._count = 0
        self._write_failure: str | None = None

    def start(self) -> None:
        """Start the thread."""
        self._began = time.monotonic()
        self._thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def follow(self, pid: int) -> None:
        """Follow one more process of the engine, with its descendants."""
        with self._lock:
            self._new_roots.append(pid)

    def mark(self, stage: str) -> None:
        """Samples from now on belong to this stage."""
        with self._lock:
            self._stage = stage

    def stop(self) -> Cost:
        """Stop sampling and return the cost. Calling it again changes nothing.

        A driver that hangs inside a call holds the thread; it is then left behind, as a daemon, and
        the summary has a gap that says so.
        """
        self._halt.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_WAIT)
        if self._ended is None:
            self._ended = time.monotonic()
            if self._thread.is_alive():
                self._add(self._blank("the driver did not answer while the watch was stopped"))
        return self.cost()

    def cost(self) -> Cost:
        """What watching took so far."""
        with self._lock:
            end = self._ended if self._ended is not None else time.monotonic()
            wall = end - self._began if self._began else 0.0
            return Cost(self._thread_cpu + self._helper_cpu, wall, self._count)

    def summary(self, stage: str | None = None) -> Summary:
        """What was seen so far, in all or in one stage."""
        with self._lock:
            if stage is None:
                return self._whole.result()
            return self._stages.get(stage, SummaryBuilder(self._period)).result()

    def _run(self) -> None:
        self._helper_cpu_before = self._source.cpu_seconds()
        out = self._open()
        try:
            due = time.monotonic()
            while not self._halt.is_set():
                sample = self._take()
                self._add(sample)
                out = self._write(out, sample.as_json())
                self._tell(sample)
                self._note_cost()
                # A slow driver makes samples late, never dense afterwards.
                due = max(due + self._period, time.monotonic())
                self._halt.wait(due - time.monotonic())
        finally:
            if out is not None:
                cost = self.cost()
                closing = {"cost": {"cpu_seconds": cost.cpu_seconds, "samples": cost.samples}}
                out = self._write(out, closing)
            if out is not None:
                out.close()

    def _take(self) -> Sample:
        gaps: list[str] = []
        devices = host = tree = None
        try:
            found = self._source.sample()
            devices = tuple(found)
            gaps.extend(f"device {each.key}: {each.error}" for each in found if each.error)
        except TelemetryLost as problem:
            gaps.append(str(problem))
        except Exception as problem:  # noqa: BLE001 — a fault of a driver's binding must not end the watch
            gaps.append(f"{type(problem).__name__}: {problem}")
        try:
            host = self._host.sample()
            # The lock is not held while processes are read: a read of a stuck process can block.
            with self._lock:
                roots, self._new_roots = self._new_roots, []
            for pid in roots:
                self._tree.add(pid)
            tree = self._tree.sample()
        except (OSError, psutil.Error) as problem:
            gaps.append(f"host: {type(problem).__name__}: {problem}")
        if self._write_failure is not None:
            gaps.append(self._write_failure)
        return Sample(
            at=time.monotonic() - self._began,
            stage=self._stage,
            host=host,
            tree=tree,
            devices=devices,
            gap="; ".join(gaps) or None,
        )

    def _blank(self, reason: str) -> Sample:
        at = time.monotonic() - self._began
        return Sample(at=at, stage=self._stage, host=None, tree=None, devices=None, gap=reason)

    def _add(self, sample: Sample) -> None:
        with self._lock:
            self._count += 1
            self._whole.add(sample)
            builder = self._stages.setdefault(sample.stage, SummaryBuilder(self._period))
            builder.add(sample)

    def _tell(self, sample: Sample) -> None:
        if self._on_sample is None:
            return
        try:
            self._on_sample(sample)
        except Exception as problem:  # noqa: BLE001 — a listener's fault is a gap, not the end of the watch
            self._on_sample = None
            self._add(self._blank(f"the listener failed: {type(problem).__name__}: {problem}"))

    def _note_cost(self) -> None:
        with self._lock:
            self._thread_cpu = time.thread_time()
            self._helper_cpu = self._source.cpu_seconds() - self._helper_cpu_before

    def _open(self) -> IO[bytes] | None:
        """Open the file without a buffer, so that nothing is left to fail when it is closed."""
        if self._path is None:
            return None
        try:
            return self._path.open("ab", buffering=0)
        except OSError as problem:
            self._write_failure = f"samples are not written: {problem}"
            return None

    def _write(self, out: IO[bytes] | None, data: dict[str, Any]) -> IO[bytes] | None:
        """Write one line; a disk that refuses ends the writing, not the watching."""
        if out is None:
            return None
        line = json.dumps(data, separators=(",", ":")).encode() + b"\n"
        try:
            if out.write(line) == len(line):
                return out
            self._write_failure = "samples are not written: the disk took only a part"
        except OSError as problem:
            self._write_failure = f"samples are not written: {problem}"
        out.close()
        return None


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples in a file that a watch wrote; a torn or foreign line is passed over."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                yield Sample.from_json(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue

"""The machine as the engine will find it: devices, cores, memory, NUMA nodes."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from tuner.telemetry.cgroup import cgroup_memory, cpu_quota
from tuner.telemetry.samples import DeviceInfo, DeviceSource

__all__ = ["Hardware", "NumaNode", "detect_hardware", "parse_cpu_list"]

_FLAGS = {"avx512_bf16", "amx_tile"}
_NODES_SHOW = 0.9  # of the machine's memory, for the nodes to be taken as the whole of it


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node.

    Attributes:
        index: Its number.
        cpus: Logical processors on it.
        memory_total: Bytes of memory on it.
    """

    index: int
    cpus: tuple[int, ...]
    memory_total: int | None


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine, as far as this process may use it.

    Attributes:
        telemetry: Kind of the source of device samples.
        devices: All devices that it shows.
        processor: Name of the processor, where the system tells it.
        cpu_flags: Those features of the processor that change how an engine lays out its memory:
            ``avx512_bf16`` and ``amx_tile``.
        cpus: Logical processors in this process's affinity.
        cpu_quota: Cores' worth of time that the control group allows; None where it does not limit.
        cores: Whole cores to plan with: the smaller of the two, at least 1.
        physical_cores: Physical cores of the machine; None where unknown.
        memory_total: Bytes of host memory that may be used: the smaller of machine and group limit.
        memory_available: Bytes of it that could be had at the time of asking.
        machine_memory: Bytes of memory of the whole machine, limits of this process left aside.
        numa: The NUMA nodes; empty where the system shows none.
    """

    telemetry: str
    devices: tuple[DeviceInfo, ...]
    processor: str | None
    cpu_flags: tuple[str, ...]
    cpus: tuple[int, ...]
    cpu_quota: float | None
    cores: int
    physical_cores: int | None
    memory_total: int
    memory_available: int
    machine_memory: int
    numa: tuple[NumaNode, ...]

    @property
    def worker_memory(self) -> int | None:
        """Bytes that a worker bound to one NUMA node can have at most; None where that is not known.

        On a virtual machine whose memory is plugged in as it is needed, the nodes show less than the
        machine has, and more a minute later. Then what a node shows is no limit.
        """
        shown = [node.memory_total for node in self.numa if node.memory_total is not None]
        if not shown or sum(shown) < _NODES_SHOW * self.machine_memory:
            return None
        return min(max(shown), self.memory_total)

    def as_json(self) -> dict[str, Any]:
        """The description as JSON-ready data."""
        return asdict(self)


def detect_hardware(source: DeviceSource, *, root: Path = Path("/")) -> Hardware:
    """Describe this machine.

    Args:
        source: Where devices are listed.
        root: Where ``proc`` and ``sys`` lie.

    Raises:
        TelemetryLost: When the driver does not answer.
    """
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    quota = cpu_quota(root)
    usable = len(cpus) if quota is None else min(len(cpus), int(quota))
    memory = psutil.virtual_memory()
    total, available = int(memory.total), int(memory.available)
    group = cgroup_memory(root)
    if group is not None:
        total = min(total, group.limit)
        room = group.available
        available = min(available, total if room is None else room)
    return Hardware(
        telemetry=source.kind,
        devices=tuple(source.devices()),
        processor=_cpuinfo(root, "model name") or platform.machine() or None,
        cpu_flags=tuple(sorted(_FLAGS & set((_cpuinfo(root, "flags") or "").split()))),
        cpus=cpus,
        cpu_quota=quota,
        cores=max(1, usable),
        physical_cores=psutil.cpu_count(logical=False),
        memory_total=total,
        memory_available=available,
        machine_memory=int(memory.total),
        numa=_numa(root),
    )


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Processors in a list such as ``0-2,4``; parts that are no numbers are passed over."""
    found: set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.strip().partition("-")
        if low.isdecimal() and (high.isdecimal() or not high):
            first, last = int(low), int(high or low)
            if 0 <= last - first < 2**16:
                found.update(range(first, last + 1))
    return tuple(sorted(found))


def _cpuinfo(root: Path, wanted: str) -> str | None:
    for line in _read(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == wanted and value.strip():
            return value.strip()
    return None


def _numa(root: Path) -> tuple[NumaNode, ...]:
    nodes: list[NumaNode] = []
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        number = folder.name.removeprefix("node")
        if not number.isdecimal():
            continue
        found = re.search(r"MemTotal:\s*(\d+)\s*kB", _read(folder / "meminfo"))
        cpus = parse_cpu_list(_read(folder / "cpulist"))
        nodes.append(NumaNode(int(number), cpus, int(found[1]) * 1024 if found else None))
    return tuple(sorted(nodes, key=lambda node: node.index))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""

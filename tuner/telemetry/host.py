"""The host's processors and memory, and the processes of one engine."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from tuner.telemetry.cgroup import cgroup_memory
from tuner.telemetry.samples import HostSample, TreeSample

__all__ = ["EngineTree", "HostSampler"]


class HostSampler:
    """Reads the host; the share of busy time is taken between two reads.

    Args:
        root: Where ``proc`` and ``sys`` lie.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._last: tuple[float, float] | None = None

    def sample(self) -> HostSample:
        """One sample; the first one has no share of busy time."""
        memory = psutil.virtual_memory()
        group = cgroup_memory(self._root)
        available, limit = int(memory.available), int(memory.total)
        if group is not None:
            limit = min(limit, group.limit)
            room = group.available
            available = min(available, limit if room is None else room)
        return HostSample(cpu=self._busy(), memory_available=available, memory_limit=limit)

    def _busy(self) -> float | None:
        times = psutil.cpu_times()
        idle = float(times.idle) + float(getattr(times, "iowait", 0.0))
        # Guests' time is counted in user's as well.
        total = float(sum(times)) - float(getattr(times, "guest", 0.0))
        total -= float(getattr(times, "guest_nice", 0.0))
        last, self._last = self._last, (idle, total)
        if last is None or total - last[1] <= 0:
            return None
        return min(100.0, max(0.0, 100.0 * (1 - (idle - last[0]) / (total - last[1]))))


class EngineTree:
    """Follows the processes of an engine, from its roots to the last descendant.

    A process once seen is followed until it ends, so one that was adopted by another parent still
    counts. A process is its pid together with its start, so a reused pid does not.

    Args:
        roots: Pids of the first processes.
        pss_every: Seconds between two reads of the proportional sets. Reading them walks the page
            tables of the engine and holds its memory map meanwhile, which costs the engine time.
    """

    def __init__(self, roots: Iterable[int] = (), *, pss_every: float = 10.0) -> None:
        self._members: dict[int, psutil.Process] = {}
        self._pss_every = pss_every
        self._pss_due = 0.0
        for pid in roots:
            self.add(pid)

    def add(self, pid: int) -> None:
        """Follow one more root; one that has ended already is passed over."""
        try:
            self._members[pid] = psutil.Process(pid)
        except psutil.Error:
            return

    def sample(self) -> TreeSample:
        """One sample of all that is alive; zombies do not count."""
        self._grow()
        now = time.monotonic()
        wants_pss = now >= self._pss_due
        if wants_pss:
            self._pss_due = now + self._pss_every
        rss, pss, cpu, alive = 0, 0, 0.0, 0
        for pid, process in list(self._members.items()):
            try:
                with process.oneshot():
                    if process.status() == psutil.STATUS_ZOMBIE:
                        del self._members[pid]
                        continue
                    times = process.cpu_times()
                    resident = process.memory_info().rss
                if wants_pss and (share := _pss(process)) is not None:
                    pss += share
                elif wants_pss:
                    wants_pss = False
            except psutil.Error:
                self._members.pop(pid, None)
                continue
            alive, rss, cpu = alive + 1, rss + resident, cpu + times.user + times.system
        return TreeSample(alive, rss, pss if wants_pss else None, cpu)

    def _grow(self) -> None:
        """Drop what has ended or was replaced, and add the descendants of what lives."""
        for pid, process in list(self._members.items()):
            if not process.is_running():
                del self._members[pid]
        if not self._members:
            return
        children: dict[int, list[psutil.Process]] = {}
        for each in psutil.process_iter(["ppid"]):
            children.setdefault(each.info["ppid"], []).append(each)
        queue = list(self._members.values())
        while queue:
            parent = queue.pop()
            for child in children.get(parent.pid, ()):
                if child.pid not in self._members and _younger(child, parent):
                    self._members[child.pid] = child
                    queue.append(child)


def _younger(child: psutil.Process, parent: psutil.Process) -> bool:
    try:
        return child.create_time() >= parent.create_time()
    except psutil.Error:
        return False


def _pss(process: psutil.Process) -> int | None:
    """The proportional set; None where it may not be read. A sum without one member is no sum."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.AccessDenied:
        return None

"""The limits that a control group puts on memory and processors, version 1 and 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CgroupMemory", "cgroup_memory", "cpu_quota"]

_UNLIMITED = 1 << 60  # version 1 writes a huge number for "no limit"


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """The tightest memory limit above a process.

    Attributes:
        limit: Bytes that the group may use.
        used: Bytes that it uses and that the kernel cannot take back at once: its usage less the
            inactive part of the page cache. None where it cannot be read.
    """

    limit: int
    used: int | None

    @property
    def available(self) -> int | None:
        """Bytes that can still be had below the limit."""
        return None if self.used is None else max(0, self.limit - self.used)


def cgroup_memory(root: Path = Path("/")) -> CgroupMemory | None:
    """The memory limit that leaves this process the least, or None where nothing limits it.

    Every group from the process's own to the top counts, in whichever hierarchy.

    Args:
        root: Where ``proc`` and ``sys`` lie.
    """
    found: list[CgroupMemory] = []
    for folder in _folders(root, "memory"):
        limit = _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.usage_in_bytes")
        _add(found, limit, used, _stat(folder, "total_inactive_file"))
    for folder in _folders(root, ""):
        limit = _number(folder / "memory.max")
        used = _number(folder / "memory.current")
        _add(found, limit, used, _stat(folder, "inactive_file"))
    return min(found, key=_room, default=None)


def cpu_quota(root: Path = Path("/")) -> float | None:
    """How many cores' worth of time this process may use in all, or None where nothing limits it.

    Args:
        root: Where ``proc`` and ``sys`` lie.
    """
    quotas: list[float] = []
    for folder in _folders(root, "cpu"):
        quota = _number(folder / "cpu.cfs_quota_us")
        period = _number(folder / "cpu.cfs_period_us")
        if quota is not None and period and quota > 0:
            quotas.append(quota / period)
    for folder in _folders(root, ""):
        parts = _read(folder / "cpu.max").split()
        if len(parts) == 2 and all(part.isdigit() for part in parts) and int(parts[1]) > 0:
            quotas.append(int(parts[0]) / int(parts[1]))
    return min(quotas, default=None)


def _add(found: list[CgroupMemory], limit: int | None, used: int | None, cache: int) -> None:
    if limit is None or limit >= _UNLIMITED:
        return
    found.append(CgroupMemory(limit, None if used is None else max(0, used - cache)))


def _room(memory: CgroupMemory) -> tuple[int, int]:
    room = memory.available
    return (memory.limit if room is None else room, memory.limit)


def _folders(root: Path, controller: str) -> list[Path]:
    """The folders of a hierarchy from the process's group up to the top; "" means version 2.

    Inside a container the group's path is often the host's, which does not exist there; then only
    the top is found, and it is the container's own group.
    """
    mounts = (
        [root / "sys/fs/cgroup" / controller]
        if controller
        else [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"]
    )
    path = _group(_read(root / "proc/self/cgroup").splitlines(), controller)
    relative = Path(path.strip("/"))
    steps = [relative, *relative.parents] if relative.parts else [Path()]
    return [
        mount / step
        for mount in mounts
        for step in steps
        if ".." not in step.parts and (mount / step).is_dir()
    ]


def _group(lines: Iterable[str], controller: str) -> str:
    for line in lines:
        parts = line.split(":", 2)
        if len(parts) == 3 and (
            controller in parts[1].split(",") if controller else parts[0] == "0"
        ):
            return parts[2]
    return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _stat(folder: Path, name: str) -> int:
    for line in _read(folder / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return 0

"""A control group of an engine's own: its memory limit, its list of members, its way to end them all.

With it the kernel keeps the limit, at the very page that passes it, and counts what it did; a
process cannot leave by renaming itself, by ``setsid`` or by losing its parent. It needs a group
in which this user may make others: root has one, a service with ``Delegate=yes`` too. Where there is
none the memory guard watches from outside.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_PREFIX = "tuner-"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What is known of an engine's host memory.

    Attributes:
        limit: Bytes that it may use; None where it is not limited.
        peak: The most bytes that it used, the page cache of what it read included where the
            kernel counts; None where nobody counted.
        kills: How often it was killed for its limit; None where that is not known.
    """

    limit: int | None = None
    peak: int | None = None
    kills: int | None = None


@dataclass(frozen=True, slots=True)
class Cage:
    """One control group, of either version of the kernel's interface.

    Attributes:
        folder: Its folder under ``/sys/fs/cgroup``.
    """

    folder: Path

    @property
    def exists(self) -> bool:
        """Whether the group is there."""
        return self.folder.is_dir()

    def open(self, limit: int) -> None:
        """Make the group and set its limit.

        Raises:
            OSError: When the kernel refuses any of it; nothing is left then.
        """
        self.folder.mkdir()
        try:
            if (self.folder / "memory.limit_in_bytes").exists():
                self._limit_v1(limit)
            else:
                self._write("memory.max", str(limit))
                self._try("memory.swap.max", "0")
                self._try("memory.oom.group", "1")
        except OSError:
            self.remove()
            raise

    def _limit_v1(self, limit: int) -> None:
        if _read(self.folder.parent / "memory.use_hierarchy").strip() == "0":
            raise OSError("a group here would leave the limit of the one that it is made in")
        self._write("memory.limit_in_bytes", str(limit))
        self._try("memory.memsw.limit_in_bytes", str(limit))

    def admit(self, pid: int) -> None:
        """Move a process in; what it starts from now on is born inside.

        Raises:
            OSError: When the kernel refuses.
        """
        self._write("cgroup.procs", str(pid))

    def pids(self) -> tuple[int, ...]:
        """The processes inside, dead ones that were not reaped among them."""
        return tuple(int(word) for word in _read(self.folder / "cgroup.procs").split())

    def kill(self) -> bool:
        """Have the kernel kill everything inside at once.

        Returns:
            Whether this kernel can.
        """
        return self._try("cgroup.kill", "1")

    def use(self) -> MemoryUse:
        """The limit, the peak and the kills so far."""
        if (self.folder / "memory.limit_in_bytes").exists():
            return MemoryUse(
                limit=_number(self.folder / "memory.limit_in_bytes"),
                peak=_number(self.folder / "memory.max_usage_in_bytes"),
                kills=_count(self.folder / "memory.oom_control"),
            )
        return MemoryUse(
            limit=_number(self.folder / "memory.max"),
            peak=_number(self.folder / "memory.peak"),
            kills=_count(self.folder / "memory.events"),
        )

    def remove(self) -> bool:
        """Remove the group, if nobody is inside; whether it is gone."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        return not self.exists

    def _write(self, name: str, value: str) -> None:
        (self.folder / name).write_text(value)

    def _try(self, name: str, value: str) -> bool:
        """Write what not every kernel has."""
        if not (self.folder / name).exists():
            return False
        try:
            self._write(name, value)
        except OSError:
            return False
        return True


def find_home(root: Path = ROOT, own: Path = Path("/proc/self/cgroup")) -> Path | None:
    """The group in which groups with a memory limit can be made, or None.

    It is this process's own group, so that whatever limits the tuner limits its engines too. Under
    version 2 a group that holds processes has no limited groups inside, unless it is the top one;
    then the one above serves, if this user may write there.

    Args:
        root: Where the hierarchies are mounted.
        own: The file that says in which groups this process is.
    """
    paths = groups_of(own)
    if "memory" in paths:
        mount = root / "memory"
        homes = [mount / paths["memory"].lstrip("/"), mount]
        return next((home for home in homes if _usable(home, "memory.limit_in_bytes")), None)
    if "" not in paths or not (root / "cgroup.controllers").is_file():
        return None
    here = root / paths[""].lstrip("/")
    for home in (here, here.parent):
        inside = home == root or root in home.parents
        limits = "memory" in _read(home / "cgroup.subtree_control").split()
        if inside and limits and _usable(home, "cgroup.procs"):
            return home
        if _number(here / "memory.max") is not None:
            return None  # beside this group an engine would leave the limit that is set on it
    return None


def cage_in(home: Path, name: str) -> Cage:
    """The group of that name in a home; not made yet."""
    return Cage(home / f"{_PREFIX}{name}")


def groups_of(own: Path) -> dict[str, str]:
    """The path of a process's group by controller; ``""`` stands for version 2.

    Args:
        own: The process's ``/proc/PID/cgroup``.
    """
    found: dict[str, str] = {}
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def _usable(home: Path, needs: str) -> bool:
    return os.access(home, os.W_OK | os.X_OK) and (home / needs).is_file()


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _count(path: Path) -> int | None:
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return None

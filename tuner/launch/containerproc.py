"""A container's processes and control group, as this machine's kernel tells of them.

The daemon is not asked, so this holds also while it hangs and after it died: every process of a
container stands in a control group that bears the container's id, and can leave it by no means of
its own. Where the container's kernel is another one (a daemon in a virtual machine), nothing is seen.
"""

from __future__ import annotations

import os
from pathlib import Path

from tuner.launch.cage import ROOT, Cage, groups_of
from tuner.launch.identity import Member, read_stat


def processes(container: str, proc: Path = Path("/proc")) -> tuple[Member, ...]:
    """Live processes of a container, by its whole id."""
    if len(container) < 32:
        return ()  # a short or an empty id would be found in other groups' names
    found = []
    for name in os.listdir(proc):
        if not name.isdigit() or not _inside(proc / name / "cgroup", container):
            continue
        stat = read_stat(int(name))
        if stat is not None and not stat.dead:
            found.append(Member(stat.pid, stat.start_ticks, ("control group",)))
    return tuple(found)


def is_inside(pid: int, container: str) -> bool:
    """Whether a process of this machine is in the container's control group."""
    return _inside(Path(f"/proc/{pid}/cgroup"), container)


def memory_group(pid: int, container: str, root: Path = ROOT) -> Cage | None:
    """The control group that holds the container's memory limit, by one of its processes.

    None where it cannot be seen from here.
    """
    groups = groups_of(Path(f"/proc/{pid}/cgroup"))
    for controller, mount in (("memory", root / "memory"), ("", root)):
        path = groups.get(controller)
        if path is not None and container in path:
            cage = Cage(mount / path.lstrip("/"))
            return cage if cage.exists else None
    return None


def _inside(groups: Path, container: str) -> bool:
    try:
        return container in groups.read_text(errors="replace")
    except OSError:
        return False

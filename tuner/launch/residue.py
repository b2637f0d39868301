"""Which processes belong to an engine, by evidence that survives renaming, setsid and orphaning.

vLLM renames its processes, which wipes their environment; workers may leave the session; a dead
parent hands its children to another. So no single sign will do. Strong signs stand alone: the
recorded pid and start tick, the engine's own control group, the trial's log as stdout or stderr,
the marker in the environment. A weak sign (the session or group number, the working directory)
counts only with another one, because numbers are reused and people walk into folders.
"""

from __future__ import annotations

import os
from pathlib import Path

from tuner.launch.cage import Cage
from tuner.launch.identity import Identity, Member, ProcessStat, read_stat

MARKER_VARIABLE = "TUNER_TRIAL_MARKER"
_STRONG = frozenset({"recorded", "cgroup", "log", "marker"})
_PLACE = frozenset({"session", "group"})


def find_members(identity: Identity, *, guardian: int | None = None) -> tuple[Member, ...]:
    """All live processes of an engine, the leader included.

    Args:
        identity: The engine as it was recorded.
        guardian: Pid of the process that adopts the engine's orphans (a subreaper), when the
            caller is it; of its adopted children those in the session or group belong to the engine.
    """
    if not identity.this_boot:
        return ()
    recorded = {(m.pid, m.start_ticks) for m in (*identity.members, identity.leader)}
    place = _place(identity)
    caged = frozenset(Cage(Path(identity.cgroup)).pids()) if identity.cgroup else frozenset[int]()
    stats = [stat for pid in _all_pids() if (stat := read_stat(pid)) is not None and not stat.dead]
    found: dict[int, Member] = {}
    for stat in stats:
        if stat.pid == os.getpid() or stat.start_ticks < identity.born_after:
            continue
        signs = _signs(stat, identity, recorded, place)
        if stat.pid in caged:
            signs.append("cgroup")
        if _belongs(stat, signs, guardian):
            found[stat.pid] = Member(stat.pid, stat.start_ticks, tuple(signs))
    return tuple(_with_descendants(found, stats))


def zombies_of(identity: Identity, parent: int) -> tuple[Member, ...]:
    """The engine's dead whom this process inherited and has not buried yet."""
    stats = [stat for pid in _all_pids() if (stat := read_stat(pid)) is not None and stat.dead]
    known = {(m.pid, m.start_ticks) for m in identity.members}
    place = _place(identity)
    return tuple(
        Member(stat.pid, stat.start_ticks, ("zombie",))
        for stat in stats
        if stat.ppid == parent
        and stat.pid != identity.pid
        and (
            (stat.pid, stat.start_ticks) in known or (place != 0 and place in (stat.sid, stat.pgid))
        )
    )


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _place(identity: Identity) -> int:
    """The number of the engine's session and group; 0 once another process has it.

    The kernel gives no process a number that is still some session's or group's. So when the
    leader's number is another process's now, nobody of the engine is left in its session.
    """
    stat = read_stat(identity.pid) if identity.pid else None
    return 0 if stat is not None and stat.start_ticks != identity.start_ticks else identity.pid


def _signs(
    stat: ProcessStat, identity: Identity, recorded: set[tuple[int, int]], place: int
) -> list[str]:
    signs = []
    if (stat.pid, stat.start_ticks) in recorded:
        signs.append("recorded")
    if _writes_to(stat.pid, identity):
        signs.append("log")
    if _has_marker(stat.pid, identity.marker):
        signs.append("marker")
    if place and stat.sid == place:
        signs.append("session")
    if place and stat.pgid == place:
        signs.append("group")
    if _link(stat.pid, "cwd") == identity.folder:
        signs.append("cwd")
    if _link(stat.pid, "exe") == identity.executable:
        signs.append("executable")
    if stat.tty == 0:
        signs.append("no terminal")
    return signs


def _belongs(stat: ProcessStat, signs: list[str], guardian: int | None) -> bool:
    if _STRONG & set(signs):
        return True
    if "cwd" in signs and _PLACE & set(signs):
        return True
    if "cwd" in signs and {"executable", "no terminal"} <= set(signs):
        return True
    adopted = guardian is not None and stat.ppid == guardian
    return adopted and bool(_PLACE & set(signs))


def _with_descendants(found: dict[int, Member], stats: list[ProcessStat]) -> list[Member]:
    """Add children of members: whoever a member started is the engine's too."""
    children: dict[int, list[ProcessStat]] = {}
    for stat in stats:
        children.setdefault(stat.ppid, []).append(stat)
    queue = list(found)
    while queue:
        for child in children.get(queue.pop(), ()):
            if child.pid not in found and child.pid != os.getpid():
                found[child.pid] = Member(child.pid, child.start_ticks, ("descendant",))
                queue.append(child.pid)
    return list(found.values())


def _writes_to(pid: int, identity: Identity) -> bool:
    """Whether stdout or stderr of the process is the log; a reader with the log open is not meant.

    The file may have been renamed within the trial's folder, or removed; it is known by its inode.
    An inode number is given to another file once the last holder is gone, so the folder must be
    right as well.
    """
    for number in (1, 2):
        try:
            seen = os.stat(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        if seen.st_ino != identity.log_inode:
            continue
        if identity.log_device and seen.st_dev != identity.log_device:
            continue
        link = _link(pid, f"fd/{number}")
        if link is not None and str(Path(link).parent) == identity.folder:
            return True
    return False


def _has_marker(pid: int, marker: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARKER_VARIABLE}={marker}".encode() in environ.split(b"\0")


def _link(pid: int, name: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return None


def cpu_seconds(members: tuple[Member, ...]) -> float:
    """Processor time that the members used together, in seconds; movement is a sign of life."""
    ticks = sum(stat.cpu_ticks for m in members if (stat := m.stat()) is not None)
    return ticks / os.sysconf("SC_CLK_TCK")

"""Which processes belong to an engine, by evidence that survives renaming, setsid and orphaning.

vLLM renames its processes, which wipes their environment; workers may leave the session; a dead
parent hands its children to another. So no single sign will do. Strong signs stand alone: the
recorded pid and start tick, the trial's log as stdout or stderr, the marker in the environment.
A weak sign (the session or group number, the working directory) counts only with another one,
because numbers are reused and people walk into folders.
"""

from __future__ import annotations

import os
from pathlib import Path

from tuner.launch.identity import Identity, Member, ProcessStat, read_stat

MARKER_VARIABLE = "TUNER_TRIAL_MARKER"


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
    stats = [stat for pid in _all_pids() if (stat := read_stat(pid)) is not None and not stat.dead]
    found: dict[int, Member] = {}
    for stat in stats:
        if stat.pid == os.getpid() or stat.start_ticks < identity.born_after:
            continue
        signs = _signs(stat, identity, recorded)
        if _belongs(stat, signs, guardian):
            found[stat.pid] = Member(stat.pid, stat.start_ticks, tuple(signs))
    return tuple(_with_descendants(found, stats))


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _signs(stat: ProcessStat, identity: Identity, recorded: set[tuple[int, int]]) -> list[str]:
    signs = []
    if (stat.pid, stat.start_ticks) in recorded:
        signs.append("recorded")
    if _writes_to(stat.pid, identity.log_inode, identity.log):
        signs.append("log")
    if _has_marker(stat.pid, identity.marker):
        signs.append("marker")
    if identity.pid and stat.sid == identity.pid:
        signs.append("session")
    if identity.pid and stat.pgid == identity.pid:
        signs.append("group")
    if _link(stat.pid, "cwd") == identity.folder:
        signs.append("cwd")
    if _link(stat.pid, "exe") == identity.executable:
        signs.append("executable")
    if stat.tty == 0:
        signs.append("no terminal")
    return signs


def _belongs(stat: ProcessStat, signs: list[str], guardian: int | None) -> bool:
    if {"recorded", "log", "marker"} & set(signs):
        return True
    if "cwd" in signs and {"session", "group"} & set(signs):
        return True
    if "cwd" in signs and {"executable", "no terminal"} <= set(signs):
        return True
    adopted = guardian is not None and stat.ppid == guardian
    return adopted and bool({"session", "group"} & set(signs))


def _with_descendants(found: dict[int, Member], stats: list[ProcessStat]) -> list[Member]:
    """Add children of members: whoever a member started is the engine's too."""
    children: dict[int, list[ProcessStat]] = {}
    for stat in stats:
        children.setdefault(stat.ppid, []).append(stat)
    queue = list(found)
    while queue:
        for child in children.get(queue.pop(), ()):
            if child.pid not in found:
                found[child.pid] = Member(child.pid, child.start_ticks, ("descendant",))
                queue.append(child.pid)
    return list(found.values())


def _writes_to(pid: int, inode: int, path: str) -> bool:
    """Whether stdout or stderr of the process is the log; a reader with the log open is not meant."""
    for number in (1, 2):
        try:
            if os.stat(f"/proc/{pid}/fd/{number}").st_ino != inode:
                continue
        except OSError:
            continue
        if _link(pid, f"fd/{number}") == path:
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

"""Who a process is: enough, written down at its birth, to know it again for certain.

A pid alone says nothing: it is reused. A process is known by the boot it lives in, its pid and the
tick at which it started. That triple is checked again at the moment of every signal, and the
signal goes through a pidfd, so that it cannot hit a successor.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tuner.errors import LedgerCorrupt

_STAT_STATE, _STAT_PPID, _STAT_PGRP, _STAT_SESSION, _STAT_TTY = 0, 1, 2, 3, 4
_STAT_UTIME, _STAT_STIME, _STAT_THREADS, _STAT_START = 11, 12, 17, 19


def boot_id() -> str:
    """The kernel's name for this boot; process ids mean nothing across boots."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What ``/proc/PID/stat`` says of one process.

    Attributes:
        state: The kernel's one letter; ``Z`` and ``X`` are dead.
        cpu_ticks: User and system time together, in clock ticks.
        start_ticks: When it started, in clock ticks since boot.
        tty: Device number of the controlling terminal, 0 for none.
        threads: How many of its threads are left, the first one included.
    """

    pid: int
    state: str
    ppid: int
    pgid: int
    sid: int
    tty: int
    cpu_ticks: int
    start_ticks: int
    threads: int = 1

    @property
    def dead(self) -> bool:
        """Whether nothing of it runs or holds memory any more: a zombie only waits to be reaped.

        A process whose first thread has ended shows as a zombie too, while its other threads go on
        and all its memory stays.
        """
        return self.state in "ZX" and self.threads <= 1


def read_stat(pid: int) -> ProcessStat | None:
    """The process's own line in ``/proc``, or None when there is no such process."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name stands in parentheses and may hold anything, parentheses and line ends included.
    _, closing, rest = raw.rpartition(")")
    words = rest.split()
    if not closing or len(words) <= _STAT_START:
        return None
    return ProcessStat(
        pid=pid,
        state=words[_STAT_STATE],
        ppid=int(words[_STAT_PPID]),
        pgid=int(words[_STAT_PGRP]),
        sid=int(words[_STAT_SESSION]),
        tty=int(words[_STAT_TTY]),
        cpu_ticks=int(words[_STAT_UTIME]) + int(words[_STAT_STIME]),
        start_ticks=int(words[_STAT_START]),
        threads=int(words[_STAT_THREADS]),
    )


@dataclass(frozen=True, slots=True)
class Member:
    """One process of an engine, by pid and start tick, and the evidence that it is one."""

    pid: int
    start_ticks: int
    evidence: tuple[str, ...] = ()

    def stat(self) -> ProcessStat | None:
        """Its state now; None when it is gone, also when another process has its pid."""
        found = read_stat(self.pid)
        return found if found is not None and found.start_ticks == self.start_ticks else None

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        found = self.stat()
        return found is not None and not found.dead

    def send(self, number: signal.Signals) -> bool:
        """Signal exactly this process, or nobody.

        The pidfd pins whatever process has the pid; only then is the start tick compared, so a
        process that took the pid over in between is seen and left alone.

        Returns:
            Whether the signal was delivered.
        """
        if self.pid <= 1 or self.pid == os.getpid():
            return False
        try:
            handle = os.pidfd_open(self.pid)
        except (ProcessLookupError, PermissionError):
            return False
        try:
            if self.stat() is None:
                return False
            signal.pidfd_send_signal(handle, number)
        except (ProcessLookupError, PermissionError):
            return (
                False  # gone, or it has taken another user's rights: then it is told as a survivor
            )
        finally:
            os.close(handle)
        return True


@dataclass(frozen=True, slots=True)
class Identity:
    """What is recorded of an engine at its birth, before anything else can go wrong.

    Attributes:
        boot: Boot in which it was started.
        pid: The leader's pid; it leads its own session and group, so it is their number too.
        start_ticks: The leader's start tick. 0 while only the intent to start is recorded.
        born_after: A tick before the start; no member of the engine is older.
        folder: The trial's folder: working directory of the engine.
        log: The log file that is the engine's stdout and stderr.
        log_inode: Its inode number.
        log_device: Number of the device that the inode is on; 0 where it was not recorded.
        marker: A random word in the engine's environment.
        executable: The interpreter's real path.
        port: TCP port on 127.0.0.1 that it was given, or None.
        scratch: Its private temporary folder; made after this was recorded.
        cgroup: Its own control group, where one could be had; made after this was recorded.
        shm_before: Names in /dev/shm before the start.
        shm_seen: Names in /dev/shm that its processes were seen to use.
        members: Processes of the engine that were seen alive and recorded later.
    """

    boot: str
    pid: int
    start_ticks: int
    born_after: int
    folder: str
    log: str
    log_inode: int
    marker: str
    executable: str
    port: int | None
    scratch: str
    shm_before: tuple[str, ...] = ()
    shm_seen: tuple[str, ...] = ()
    members: tuple[Member, ...] = field(default_factory=tuple)
    log_device: int = 0
    cgroup: str | None = None

    @property
    def leader(self) -> Member:
        """The process that was started."""
        return Member(self.pid, self.start_ticks, ("leader",))

    @property
    def this_boot(self) -> bool:
        """Whether the engine could still be running: nothing survives a reboot."""
        return self.boot == boot_id()

    def as_json(self) -> dict[str, Any]:
        """The identity as JSON-ready data; :meth:`from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Identity:
        """The identity that :meth:`as_json` wrote.

        Raises:
            LedgerCorrupt: When it is something else.
        """
        try:
            members = tuple(
                Member(m["pid"], m["start_ticks"], tuple(m["evidence"])) for m in data["members"]
            )
            names = {key: tuple(data[key]) for key in ("shm_before", "shm_seen")}
            known = {f.name for f in fields(cls)}
            plain = {key: value for key, value in data.items() if key in known}
            return cls(**{**plain, **names, "members": members})
        except (KeyError, TypeError) as error:
            raise LedgerCorrupt(f"a recorded engine cannot be read: {error!r}") from error


def now_ticks() -> int:
    """The current moment on the clock of process start ticks, at most one tick early.

    The boot clock is what the kernel stamps processes with; ``/proc/uptime`` is rewritten in some
    containers.
    """
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1


def myself() -> dict[str, Any]:
    """This process as others can know it again: its boot, its pid and when it started."""
    stat = read_stat(os.getpid())
    return {"boot": boot_id(), "pid": os.getpid(), "start_ticks": stat.start_ticks if stat else 0}

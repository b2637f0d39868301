"""Being the process that inherits the orphans of an engine, and burying them one by one."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from tuner.launch.identity import Member, read_stat

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Ask the kernel to hand orphaned descendants to this process instead of to pid 1.

    Returns:
        Whether the kernel agreed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def reap(members: Iterable[Member]) -> list[int]:
    """Bury those members that are zombies and children of this process.

    Each is waited for by its own pid: a wait for any child would steal exit statuses that
    ``subprocess`` is still going to ask for.

    Returns:
        The pids that were buried.
    """
    buried = []
    for member in members:
        stat = read_stat(member.pid)
        if stat is None or not stat.dead or stat.ppid != os.getpid():
            continue
        try:
            done, _ = os.waitpid(member.pid, os.WNOHANG)
        except ChildProcessError:
            continue
        if done:
            buried.append(done)
    return buried

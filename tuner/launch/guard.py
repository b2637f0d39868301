"""A limit on an engine's host memory, so that the engine dies and not the machine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import psutil

from tuner.launch.identity import Member

_INTERVAL = 0.5


class MemoryGuard:
    """Kills an engine whose processes together pass a limit of resident memory.

    Shared pages are counted once for each process that maps them, as the kernel's RSS does; the
    proportional size would be exact, but takes a walk over all page tables for each look.

    Args:
        members: Gives the engine's live processes.
        limit: Bytes that they may hold together.
    """

    def __init__(self, members: Callable[[], tuple[Member, ...]], limit: int) -> None:
        self._members = members
        self._limit = limit
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-guard", daemon=True)
        self.fired = False
        self.peak = 0

    def start(self) -> None:
        """Begin to look, twice a second."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(_INTERVAL):
            members = self._members()
            used = sum(resident(m) for m in members)
            self.peak = max(self.peak, used)
            if used > self._limit:
                self.fired = True
                for member in members:
                    member.send(signal.SIGKILL)
                return


def resident(member: Member) -> int:
    """Resident bytes of one process; 0 when it is gone."""
    try:
        return int(psutil.Process(member.pid).memory_info().rss)
    except psutil.Error:
        return 0

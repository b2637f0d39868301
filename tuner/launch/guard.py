"""A limit on an engine's host memory, so that the engine dies and not the machine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import psutil

from tuner.launch.cage import Cage, MemoryUse
from tuner.launch.identity import Member

_INTERVAL = 0.5


class MemoryGuard:
    """Ends an engine that has passed its limit of host memory, whole.

    With a control group the kernel keeps the limit, and kills the largest process that passes it;
    the guard ends the others, which would serve on without it. Without a group the guard keeps the
    limit itself, by the resident memory of all processes together. Shared pages then count once for
    each process that maps them, as in the kernel's RSS; the proportional size would be exact, but
    takes a walk over all page tables for each look.

    Args:
        members: Gives the engine's live processes.
        limit: Bytes that they may hold together.
        cage: The engine's control group, where it has one.
    """

    def __init__(
        self, members: Callable[[], tuple[Member, ...]], limit: int, cage: Cage | None = None
    ) -> None:
        self._members = members
        self._limit = limit
        self._cage = cage
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-guard", daemon=True)
        self._fired = False
        self._peak = 0
        self._last = MemoryUse(limit)

    def start(self) -> None:
        """Begin to look, twice a second."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        self._thread.join()

    def use(self) -> MemoryUse:
        """The limit, the peak and the kills, as far as they are known."""
        if self._cage is None:
            return MemoryUse(self._limit, self._peak, 1 if self._fired else None)
        if self._cage.exists:
            self._last = self._cage.use()
        return self._last

    def _run(self) -> None:
        look = self._look_around if self._cage is None else self._look_inside
        while not self._done.wait(_INTERVAL):
            if look():
                for member in self._members():
                    member.send(signal.SIGKILL)
                return

    def _look_inside(self) -> bool:
        return bool(self.use().kills)

    def _look_around(self) -> bool:
        used = sum(resident(member) for member in self._members())
        self._peak = max(self._peak, used)
        self._fired = used > self._limit
        return self._fired


def resident(member: Member) -> int:
    """Resident bytes of one process; 0 when it is gone."""
    try:
        return int(psutil.Process(member.pid).memory_info().rss)
    except psutil.Error:
        return 0

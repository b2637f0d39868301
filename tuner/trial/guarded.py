"""A load that ends when the engine does, when nothing comes any more, or when the user says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tuner.launch.base import Exit, Launch
from tuner.load.motion import Motion
from tuner.load.run import Flag
from tuner.trial.counters import Work

_LOOK = 0.25


@dataclass(slots=True)
class LoadGuard:
    """The stop flag of a load: asked many times a second, it looks at the engine four times.

    Progress is a token, or a response that the server brought to its end; a request whose time
    ran out is none. While no request is under way, none is expected. An engine that says in its own
    counters that it works (a long prefill gives no token), or that requests are queued and none
    runs, does not hang either.

    Attributes:
        launch: The engine.
        cancelled: The study's own flag.
        stall: Seconds without progress after which the engine hangs.
        motion: The signs of progress of the load, where it counts them itself.
        work: Asks the engine for its counters; only once half of ``stall`` has passed in silence,
            since it is asked in the load's own thread.
        exit: How the engine ended, once it has.
        stalled: Whether the load was ended because nothing came.
    """

    launch: Launch
    cancelled: threading.Event
    stall: float
    motion: Motion | None = None
    work: Callable[[], Work] = Work
    exit: Exit | None = None
    stalled: bool = False
    _looked: float = field(default_factory=time.monotonic)
    _moved: float = field(default_factory=time.monotonic)
    _signs: int = 0
    _before: Work | None = None

    def progress(self) -> None:
        """A token or the end of a response came."""
        self._moved = time.monotonic()
        self._before = None

    @property
    def silence(self) -> float:
        """Seconds since the last sign of progress."""
        return time.monotonic() - self._moved

    def is_set(self) -> bool:
        """Whether the load is to stop."""
        now = time.monotonic()
        if self.cancelled.is_set() or self.exit is not None or self.stalled:
            return True
        if now - self._looked >= _LOOK:
            self._looked = now
            self.exit = self.launch.exit()
            self.stalled = self.exit is None and self._hangs()
        return self.exit is not None or self.stalled

    def _hangs(self) -> bool:
        if self.motion is not None:
            signs = self.motion.signs
            if signs != self._signs or self.motion.under_way == 0:
                self._signs = signs
                self.progress()
        if self._before is None and self.silence > self.stall / 2:
            self._before = self.work()
        if self.silence <= self.stall:
            return False
        now = self.work()
        if not now.queued and (self._before is None or not now.moved_since(self._before)):
            return True
        self.progress()
        return False


@dataclass(frozen=True, slots=True)
class EitherFlag:
    """Two wishes to stop; either is enough.

    Attributes:
        one: Asked first, each time: it looks at the engine.
        other: The other one.
    """

    one: Flag
    other: Flag

    def is_set(self) -> bool:
        """Whether the load is to stop."""
        return self.one.is_set() or self.other.is_set()

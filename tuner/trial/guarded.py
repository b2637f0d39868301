"""A load that ends when the engine does, when nothing comes any more, or when the user says so."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from tuner.launch.base import Exit, Launch
from tuner.load.run import Flag

_LOOK = 0.25


@dataclass(slots=True)
class LoadGuard:
    """The stop flag of a load: asked many times a second, it looks at the engine four times.

    Attributes:
        launch: The engine.
        cancelled: The study's own flag.
        stall: Seconds without any sign of a token after which the engine hangs.
        exit: How the engine ended, once it has.
        stalled: Whether the load was ended because nothing came.
    """

    launch: Launch
    cancelled: threading.Event
    stall: float
    exit: Exit | None = None
    stalled: bool = False
    _looked: float = field(default_factory=time.monotonic)
    _moved: float = field(default_factory=time.monotonic)

    def progress(self) -> None:
        """A token or a finished request came."""
        self._moved = time.monotonic()

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
            self.stalled = self.exit is None and self.silence > self.stall
        return self.exit is not None or self.stalled


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

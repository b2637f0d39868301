"""Where in its start an engine is, by its own log, and how long it may make no progress there."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from tuner.launch.readiness import Patience
from tuner.spec.document import Deadlines
from tuner.telemetry.samples import Sample
from tuner.trial.events import Voice
from tuner.verdict import Stage
from tuner.verdict.lines import parse
from tuner.verdict.rules import table
from tuner.verdict.scan import Scanner

_LOADED = 100e6
"""Bytes of a checkpoint for which a start is given one second more: a slow network disk's pace."""
_MOST = 4.0
"""A start whose log moves on and on ends after so many times what it may take."""
_KNOWN = 50_000
"""Lines of a start that are remembered."""
_MOVED = 2**20
"""Bytes by which a device's memory must change to count as work."""


class Pulse:
    """Follows the log of a starting engine.

    Args:
        voice: Told when the engine enters another stage of its start.
        number: The trial.
        deadlines: How long its stages may take.
        loads: Bytes of the checkpoint that it loads.
    """

    def __init__(self, voice: Voice, number: int, deadlines: Deadlines, *, loads: int = 0) -> None:
        self._voice = voice
        self._number = number
        self._silence = deadlines.silence
        self._start = deadlines.start + loads / _LOADED
        self._scanner = Scanner(table())
        self._said: Stage | None = None
        self._known: set[str] = set()

    @property
    def stage(self) -> Stage:
        """The furthest stage that its log shows."""
        return self._scanner.stage

    def lines(self, lines: list[str]) -> bool:
        """Take in what the log gained.

        Returns:
            Whether it tells of progress. A line that was there before, its time aside, does not:
            engines say again and again that they still wait for a worker that is stuck.
        """
        self._scanner.feed("".join(f"{line}\n" for line in lines).encode())
        if self.stage is not self._said:
            self._said = self.stage
            self._voice.say("engine", self._number, stage=str(self.stage))
        texts = {part.text for line in lines for part in parse(line, 0)}
        fresh = texts - self._known
        if len(self._known) + len(fresh) > _KNOWN:
            self._known.clear()
        self._known |= fresh
        return bool(fresh)

    def patience(self) -> Patience:
        """How long the engine may make no progress in the stage that it is in.

        Quiet means that nothing moves, neither the log nor a processor nor a device; then nothing
        will come. A silent log alone may be work that says nothing, so it is given longer. Graph
        capture is the exception: it reports its progress, and a capture that waits for a collective
        spins.
        """
        quiet = min(self._silence, self._start)
        silent = quiet if self.stage is Stage.CAPTURE else max(self._silence, self._start)
        return Patience(quiet=quiet, silent=silent, total=self._start, most=_MOST * self._start)


class DeviceWork:
    """When an engine's devices were last seen at work.

    Args:
        keys: The devices that it uses; what others do says nothing of it.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = frozenset(keys)
        self._held: dict[str, int] = {}
        self._last = -math.inf

    @property
    def last(self) -> float:
        """The time on the monotonic clock; minus infinity while none was seen at work."""
        return self._last

    def note(self, sample: Sample) -> None:
        """Take in a sample: a kernel that ran is work, and so is memory that fills or empties."""
        for device in sample.devices or ():
            if device.key not in self._keys:
                continue
            moved = False
            if device.memory_used is not None:
                before = self._held.setdefault(device.key, device.memory_used)
                moved = abs(device.memory_used - before) >= _MOVED
                if moved:
                    self._held[device.key] = device.memory_used
            if moved or (device.utilization or 0.0) > 0.0:
                self._last = time.monotonic()

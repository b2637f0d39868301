"""Samples of devices taken until they say enough, from a driver that may answer late or never."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tuner.errors import TelemetryLost
from tuner.telemetry.samples import DeviceSample, DeviceSource

Rounds = list[list[DeviceSample]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How long devices are waited for, in seconds.

    Attributes:
        patience: Until memory that is given back bit by bit must be back.
        step: Between two samples.
        answer: For the driver to answer at all.
    """

    patience: float = 60.0
    step: float = 0.5
    answer: float = 20.0


class Sampling:
    """Takes rounds of samples.

    Args:
        source: Where samples come from; used between watches, never beside one.
        pace: How long is waited.

    Attributes:
        lost: Why the last round holds nothing; empty where the driver answered.
    """

    def __init__(self, source: DeviceSource, pace: Pace) -> None:
        self._source = source
        self._pace = pace
        self.lost: tuple[str, ...] = ()

    def rounds(self, enough: Callable[[Rounds], bool]) -> Rounds:
        """Samples until they are enough, or until patience ends; at least two, which any proof needs."""
        rounds: Rounds = []
        deadline = time.monotonic() + self._pace.patience
        while True:
            rounds.append(self._sample())
            over = len(rounds) > 1 and time.monotonic() > deadline
            if over or enough(rounds):
                return rounds
            time.sleep(self._pace.step)

    def _sample(self) -> list[DeviceSample]:
        """One sample of each device; when the driver fails, one of each that says so."""
        answers: queue.SimpleQueue[list[DeviceSample] | TelemetryLost] = queue.SimpleQueue()
        answer: list[DeviceSample] | TelemetryLost

        def ask() -> None:
            try:
                answers.put(self._source.sample())
            except TelemetryLost as error:
                answers.put(error)

        # A wedged driver blocks for ever, in a call that nothing can interrupt.
        threading.Thread(target=ask, name="device-sample", daemon=True).start()
        try:
            answer = answers.get(timeout=self._pace.answer)
        except queue.Empty:
            answer = TelemetryLost(f"the driver gave no answer in {self._pace.answer:.0f} s")
        self.lost = (str(answer),) if isinstance(answer, TelemetryLost) else ()
        return [] if isinstance(answer, TelemetryLost) else answer

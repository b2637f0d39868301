"""Cards that hold, give back and forget memory as a test wants them to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tuner.errors import TelemetryLost
from tuner.telemetry.samples import DeviceInfo, DeviceSample

MIB = 2**20
GIB = 2**30
TOTAL = 32 * GIB


class FakeCards:
    """A source of samples of cards, each with a function that says what it holds at the n-th sample.

    Args:
        used: Bytes in use at the n-th sample, from 0, by card; None is a card that cannot be read.
        more: Other fields of each sample.
    """

    kind = "fake"

    def __init__(self, *used: Callable[[int], int | None], **more: Any) -> None:
        self._used = used
        self._more = more
        self.asked = 0
        self.lost_from: int | None = None
        self.hangs = False

    def devices(self) -> list[DeviceInfo]:
        return [DeviceInfo(n, f"GPU-{n}", None, "Card", TOTAL) for n in range(len(self._used))]

    def sample(self) -> list[DeviceSample]:
        at, self.asked = self.asked, self.asked + 1
        if self.hangs:
            threading.Event().wait(30)
        if self.lost_from is not None and at >= self.lost_from:
            raise TelemetryLost("the tool says nothing")
        return [self._card(n, used(at)) for n, used in enumerate(self._used)]

    def _card(self, number: int, used: int | None) -> DeviceSample:
        plain = DeviceSample(
            number,
            uuid=f"GPU-{number}",
            name="Card",
            memory_used=used,
            memory_total=TOTAL,
            error=None if used is not None else "Unknown Error",
        )
        return replace(plain, **self._more)

    def cpu_seconds(self) -> float:
        return 0.0

    def close(self) -> None:
        pass


def steady(used: int) -> Callable[[int], int]:
    """A card that always holds as much."""
    return lambda _: used


def draining(start: int, step: int, floor: int, since: int = 0) -> Callable[[int], int]:
    """A card that gives memory back bit by bit, from the ``since``-th sample on."""
    return lambda at: floor if at < since else max(floor, start - step * (at - since))

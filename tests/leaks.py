"""What a test left behind, told from what tests beside it are about to remove."""

from __future__ import annotations

import time

from tuner.launch import shm

_PATIENCE = 15.0
"""Seconds in which a test beside this one removes what its own killed engine left."""


def lasting_leftovers(before: tuple[str, ...]) -> tuple[str, ...]:
    """Names in /dev/shm that were not there before, that nobody maps, and that do not go away.

    /dev/shm is shared with the tests that run beside this one, and some of those leave something
    there for a moment, so that the tuner has something to remove.
    """
    deadline = time.monotonic() + _PATIENCE
    while (found := shm.leftovers(before)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found

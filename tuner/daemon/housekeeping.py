"""Housekeeping: counts the state folder now and then, and has it thinned when it grows too large."""

from __future__ import annotations

import asyncio
import logging
import time

from tuner.daemon.hub import Hub
from tuner.daemon.service import Service
from tuner.errors import TunerError
from tuner.quantity import format_bytes
from tuner.trial.thinning import Thinned, folder_size, thin

_OFTEN = 30.0
"""Seconds at least between two counts."""
_SELDOM = 3600.0
_SHARE = 0.9
"""What is thinned is thinned to this share of the limit, so that it is not thinned every time."""

_log = logging.getLogger(__name__)


class Housekeeping:
    """Keeps the state folder below its size.

    Args:
        service: Knows the folder and its limit, and is told its size.
        hub: Says when something has happened that may have made the folder larger.
    """

    def __init__(self, service: Service, hub: Hub) -> None:
        self._service = service
        self._hub = hub

    async def run(self) -> None:
        """Count and thin until cancelled."""
        due = 0.0
        async with self._hub.background() as watch:
            while not watch.over:
                if time.monotonic() >= due:
                    await self._keep()
                    due = time.monotonic() + _OFTEN
                await watch.wait(_SELDOM)

    async def _keep(self) -> None:
        limit = self._service.size_limit
        try:
            size = await asyncio.to_thread(folder_size, self._service.state)
            if size > limit:
                done = await asyncio.to_thread(self._thin, limit)
                size = done.after
                _log.warning(
                    "the state folder was thinned from %s to %s: %d files packed, %d removed",
                    format_bytes(done.before),
                    format_bytes(done.after),
                    done.packed,
                    done.removed,
                )
        except (TunerError, OSError):
            _log.exception("the state folder could not be thinned")
            return
        self._service.size = size
        too_large = (
            f"the state folder holds {format_bytes(size)}, more than {format_bytes(limit)}, and what is "
            "left of it is proof: raise state.size in daemon.toml, or move old studies away"
        )
        self._service.problems[:] = [too_large] if size > limit else []

    def _thin(self, limit: int) -> Thinned:
        with self._service.books.read() as ledger:
            return thin(ledger, int(limit * _SHARE))

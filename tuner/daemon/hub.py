"""Who watches, and what they are told: hints that the ledger has news, and what only matters now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

_ROOM = 256


@dataclass(frozen=True, slots=True)
class News:
    """Something that is true now and kept nowhere.

    Attributes:
        kind: What it is about: ``build``, ``engine``, ``load``, ``budget``, ``sample``, ``devices``.
        study: Name of the study that it is about; None for the machine.
        number: The trial, if it is about one.
        data: The particulars, JSON-ready.
        at: Seconds since 1970.
    """

    kind: str
    study: str | None = None
    number: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.time)


class Watch:
    """One who watches. What it does not take in time is forgotten, the oldest first."""

    def __init__(self) -> None:
        self._news: asyncio.Queue[News] = asyncio.Queue(_ROOM)
        self._woken = asyncio.Event()
        self.over = False

    def offer(self, news: News) -> None:
        """Leave something for it."""
        if self._news.full():
            self._news.get_nowait()
        self._news.put_nowait(news)
        self._woken.set()

    def wake(self) -> None:
        """Say that the ledger has news."""
        self._woken.set()

    def end(self) -> None:
        """Say that nothing will come any more."""
        self.over = True
        self._woken.set()

    async def wait(self, seconds: float) -> list[News]:
        """Wait until there is something to do, or for so long; returns what was left meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return []
        self._woken.clear()
        found = []
        while not self._news.empty():
            found.append(self._news.get_nowait())
        return found


class Hub:
    """Tells all who watch. To be used from the event loop's thread alone."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self._ended = False
        self._background = 0
        self.latest: dict[tuple[str | None, str], News] = {}

    @property
    def watched(self) -> int:
        """How many clients watch."""
        return len(self._watches) - self._background

    def tell(self, news: News) -> None:
        """Tell what is true now; the last word of each kind is kept for those who come later."""
        self.latest[news.study, news.kind] = news
        for watch in self._watches:
            watch.offer(news)

    def forget(self, study: str) -> None:
        """Forget what was true of a study that nobody works on any more."""
        for key in [key for key in self.latest if key[0] == study]:
            del self.latest[key]

    def hint(self) -> None:
        """Say that the ledger has news."""
        for watch in self._watches:
            watch.wake()

    def close(self) -> None:
        """End all watching, and what begins later at once."""
        self._ended = True
        for watch in self._watches:
            watch.end()

    @asynccontextmanager
    async def background(self) -> AsyncIterator[Watch]:
        """A watch of the daemon's own, that does not count as somebody watching."""
        self._background += 1
        try:
            async with self.watching() as watch:
                yield watch
        finally:
            self._background -= 1

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Watch]:
        """A watch for as long as the block runs; it begins with the last word of each kind."""
        watch = Watch()
        if self._ended:
            watch.end()
        for news in self.latest.values():
            watch.offer(news)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

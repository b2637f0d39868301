from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from tuner.daemon.books import Books
from tuner.daemon.hub import Hub
from tuner.daemon.routes import events
from tuner.daemon.routes.events import Feed


def test_a_reader_that_is_there_too_late_for_its_client_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, go, closed = threading.Event(), threading.Event(), threading.Event()

    class Slow:
        def __init__(self, *_: Any, **__: Any) -> None:
            opening.set()
            assert go.wait(20)

        def close(self) -> None:
            closed.set()

    monkeypatch.setattr(events, "Ledger", Slow)
    books = cast("Books", type("Nothing", (), {"state": tmp_path})())

    async def leave() -> None:
        sent = Feed(books, Hub(), None, None, 0, {}).run()
        assert (await anext(sent)).startswith(": hello")
        reading = asyncio.ensure_future(anext(sent))
        assert await asyncio.to_thread(opening.wait, 20)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not closed.is_set()
        go.set()
        assert await asyncio.to_thread(closed.wait, 20)

    asyncio.run(leave())


def test_closing_waits_for_a_question_but_the_loop_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer, closed = threading.Event(), threading.Event(), threading.Event()
    answered: list[bool] = []

    class Busy:
        """A ledger that is closed once its question is answered, as the real one."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self._turn = threading.Lock()

        def events(self, *_: Any, **__: Any) -> list[Any]:
            with self._turn:
                asked.set()
                answered.append(answer.wait(5))
            return []

        def close(self) -> None:
            with self._turn:
                closed.set()

    monkeypatch.setattr(events, "Ledger", Busy)
    books = cast("Books", type("Nothing", (), {"state": tmp_path})())

    async def leave() -> None:
        sent = Feed(books, Hub(), None, None, 0, {}).run()
        assert (await anext(sent)).startswith(": hello")
        reading = asyncio.ensure_future(anext(sent))
        assert await asyncio.to_thread(asked.wait, 20)
        reading.cancel()
        asyncio.get_running_loop().call_later(0.05, answer.set)  # never, where the loop stands
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert closed.is_set()
        assert answered == [True]

    asyncio.run(leave())


def test_a_feed_that_is_cancelled_once_more_still_closes_its_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer, closed = threading.Event(), threading.Event(), threading.Event()

    class Slow:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def events(self, *_: Any, **__: Any) -> list[Any]:
            asked.set()
            return []

        def close(self) -> None:
            assert answer.wait(20)
            closed.set()

    monkeypatch.setattr(events, "Ledger", Slow)
    books = cast("Books", type("Nothing", (), {"state": tmp_path})())

    async def leave() -> None:
        sent = Feed(books, Hub(), None, None, 0, {}).run()
        assert (await anext(sent)).startswith(": hello")
        reading = asyncio.ensure_future(anext(sent))
        assert await asyncio.to_thread(asked.wait, 20)
        for _ in range(3):
            reading.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not closed.is_set()
        answer.set()
        assert await asyncio.to_thread(closed.wait, 20)

    asyncio.run(leave())

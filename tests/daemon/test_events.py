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

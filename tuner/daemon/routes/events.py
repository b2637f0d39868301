"""Events as a stream: what the ledger keeps, in order and with ids, and what is only true now.

A client that reconnects sends the last id that it has seen, and misses nothing that was kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from tuner.daemon.books import Books
from tuner.daemon.hub import Hub, News
from tuner.daemon.problems import RESPONSES
from tuner.daemon.routes.studies import StudyName
from tuner.daemon.service import Here, Service
from tuner.store.ledger import Ledger
from tuner.store.rows import Event

router = APIRouter(prefix="/v1", tags=["events"], responses=RESPONSES)

_HEARTBEAT = 15.0
_AT_ONCE = 500

_After = Annotated[
    int | None,
    Query(ge=0, lt=2**62, description="The last id that is known; without it, only what comes."),
]
_LastId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", pattern=r"^[0-9]{1,18}$", description="As `after`."),
]
_EVENT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
    "required": ["event", "data"],
}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events. `id` stands with those that are kept; `data` is JSON: "
        "study, number, kind, at, data.",
        "content": {"text/event-stream": {"schema": _EVENT}},
    }
}


@router.get("/events", response_class=StreamingResponse, responses=_ANSWER)
def all_events(here: Here, after: _After = None, last: _LastId = None) -> StreamingResponse:
    """The events of all studies and of the machine."""
    return _stream(here, None, None, after, last)


@router.get("/studies/{study}/events", response_class=StreamingResponse, responses=_ANSWER)
def study_events(
    here: Here, study: StudyName, after: _After = None, last: _LastId = None
) -> StreamingResponse:
    """The events of one study."""
    with here.books.read() as ledger:
        row = ledger.study(study)
    return _stream(here, row.id, row.name, after, last)


def _stream(
    here: Service, study: int | None, name: str | None, after: int | None, last: str | None
) -> StreamingResponse:
    with here.books.read() as ledger:
        newest = ledger.last_event()
        names = {row.id: row.name for row in ledger.studies()}
    begin = int(last) if last is not None else (after if after is not None else newest)
    feed = Feed(here.books, here.hub, study, name, begin, names)
    return StreamingResponse(
        feed.run(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def _opened(books: Books) -> Ledger:
    """A reader of the ledger; one that is there too late for a client that has gone is closed."""
    opening = asyncio.ensure_future(asyncio.to_thread(Ledger, books.state, write=False))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close)
        raise


def _close(opening: asyncio.Future[Ledger]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class Feed:
    """One client's stream.

    Args:
        books: The ledger.
        hub: Where news comes from.
        study: Only this study's events; None for all.
        name: Its name.
        after: The last id that the client knows.
        names: Names of the studies that are known already, by id.
    """

    def __init__(
        self,
        books: Books,
        hub: Hub,
        study: int | None,
        name: str | None,
        after: int,
        names: dict[int, str],
    ) -> None:
        self._books = books
        self._hub = hub
        self._study = study
        self._name = name
        self._cursor = after
        self._names = names

    async def run(self) -> AsyncIterator[str]:
        """What the client is sent, until it goes or the daemon ends."""
        yield ": hello\n\n"
        ledger = await _opened(self._books)
        try:
            async with self._hub.watching() as watch:
                while not watch.over:
                    async for text in self._kept(ledger):
                        yield text
                    news = await watch.wait(_HEARTBEAT)
                    for one in news:
                        if self._name is None or one.study in {None, self._name}:
                            yield self._now(one)
                    if not news:
                        yield ": still here\n\n"
                async for text in self._kept(ledger):
                    yield text
                yield 'event: end\ndata: {"kind": "end"}\n\n'
        finally:
            # A thread may still be in the middle of a question for a client that has gone: closing waits
            # for it, and nobody else may have to. It goes on when we are cancelled once more.
            closing = asyncio.get_running_loop().run_in_executor(None, ledger.close)
            await asyncio.shield(closing)

    async def _kept(self, ledger: Ledger) -> AsyncIterator[str]:
        while True:
            found = await asyncio.to_thread(
                ledger.events, self._study, self._cursor, limit=_AT_ONCE
            )
            for event in found:
                self._cursor = event.id
                yield self._event(ledger, event)
            if len(found) < _AT_ONCE:
                return

    def _event(self, ledger: Ledger, event: Event) -> str:
        if event.study not in self._names:
            self._names = {row.id: row.name for row in ledger.studies()}
        data = {
            "id": event.id,
            "kind": event.kind,
            "study": self._names.get(event.study),
            "number": event.number,
            "at": event.at,
            "data": event.data,
        }
        return f"id: {event.id}\nevent: {event.kind}\ndata: {self._dump(data)}\n\n"

    def _now(self, news: News) -> str:
        data = {
            "kind": news.kind,
            "study": news.study,
            "number": news.number,
            "at": news.at,
            "data": news.data,
        }
        return f"event: {news.kind}\ndata: {self._dump(data)}\n\n"

    def _dump(self, data: dict[str, Any]) -> str:
        return json.dumps(self._books.redact.data(data), ensure_ascii=False)

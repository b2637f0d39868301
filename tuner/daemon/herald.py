"""The herald: tells a program and a webhook when a study ends, a best is found, a device is refused.

It reads the kept events from where it left off, so that a restart of the daemon neither repeats nor
drops one. What fails is noted in the study and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from dataclasses import dataclass
from typing import Any

from tuner.daemon.books import Books
from tuner.daemon.config import Events, Occasion
from tuner.daemon.hub import Hub
from tuner.daemon.staff import clean_environment
from tuner.store.rows import Event

_MARK = "herald"
_KINDS = ("study", "told", "quarantine")
_WAIT = 60.0
_SHOWN = 300

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Announcement:
    """One thing that others are told.

    Attributes:
        occasion: What kind of thing it is.
        study: Id of the study.
        text: It in one sentence.
        data: It as JSON-ready data, the sentence included.
    """

    occasion: Occasion
    study: int
    text: str
    data: dict[str, Any]


def announcement(event: Event, study: str) -> Announcement | None:
    """What others are told of an event; None where it is nothing to them.

    Args:
        event: A kept event.
        study: Name of its study.
    """
    data = event.data
    match event.kind:
        case "study" if data["status"] in {"finished", "failed"}:
            occasion: Occasion = "finished"
            why = f": {data['reason']}" if data["reason"] else ""
            text = f"study {study} has {data['status']}{why}"
        case "told" if data.get("best"):
            occasion = "best"
            text = (
                f"study {study}: trial {event.number} is the best so far, score {data['score']:g}"
            )
        case "quarantine":
            occasion = "quarantine"
            device = data.get("device", "a device")  # events of earlier versions do not name it
            text = f"study {study}: {device} is in quarantine: {data['reason']}"
        case _:
            return None
    said = {
        "event": occasion,
        "study": study,
        "trial": event.number,
        "at": event.at,
        "text": text,
        "data": data,
    }
    return Announcement(occasion, event.study, text, said)


class Herald:
    """Tells others, one thing after the other.

    Args:
        books: The ledger, held for writing.
        hub: Says when there is something new.
        config: Whom to tell, and of what.
    """

    def __init__(self, books: Books, hub: Hub, config: Events) -> None:
        self._books = books
        self._hub = hub
        self._config = config

    async def run(self) -> None:
        """Tell until cancelled; returns at once where nobody wants to be told."""
        if self._config.command is None and self._config.webhook is None:
            return
        async with self._hub.background() as watch:
            while not watch.over:
                for news, event in await asyncio.to_thread(self._outstanding):
                    if news is not None and news.occasion in self._config.on:
                        await self._tell(news)
                    await asyncio.to_thread(self._done, event)
                await watch.wait(_WAIT)

    def _outstanding(self) -> list[tuple[Announcement | None, int]]:
        with self._books.write() as (ledger, queue):
            after = queue.mark(_MARK)
            if after is None:
                after = ledger.last_event()  # what was before anybody asked is no news
                queue.set_mark(_MARK, after)
        with self._books.read() as ledger:
            events = ledger.events(after=after, kinds=_KINDS, limit=100)
            names = {row.id: row.name for row in ledger.studies()} if events else {}
        return [(announcement(event, names[event.study]), event.id) for event in events]

    def _done(self, event: int) -> None:
        with self._books.write() as (_, queue):
            queue.set_mark(_MARK, event)

    async def _tell(self, news: Announcement) -> None:
        body = json.dumps(self._books.redact.data(news.data), ensure_ascii=False).encode()
        failures = []
        if self._config.command is not None:
            failures.append(await self._run(self._config.command, news, body))
        if self._config.webhook is not None:
            failures.append(await self._post(self._config.webhook, body))
        for failure in filter(None, failures):
            _log.warning("%s: %s", news.text, failure)
            await asyncio.to_thread(self._note, news.study, failure)

    def _note(self, study: int, text: str) -> None:
        with self._books.write() as (ledger, _):
            ledger.note(study, "note", {"text": self._books.redact.text(text)})

    async def _run(self, argv: tuple[str, ...], news: Announcement, body: bytes) -> str | None:
        """Run the program; why that failed, None when it did not."""
        text = self._books.redact.text(news.text)
        env = {**clean_environment(), "TUNER_EVENT": news.occasion, "TUNER_TEXT": text}
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env=env,
                cwd=self._books.state,
            )
        except (OSError, ValueError) as error:
            return f"the program for events cannot be run: {error}"
        try:
            async with asyncio.timeout(self._config.timeout):
                _, said = await process.communicate(body)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its own session; not waited for yet
            await process.wait()
            return (
                f"the program for events took longer than {self._config.timeout:g} s and was ended"
            )
        if process.returncode:
            last = said.decode(errors="replace").strip()[-_SHOWN:]
            return f"the program for events ended with {process.returncode}: {last}"
        return None

    async def _post(self, address: str, body: bytes) -> str | None:
        """Post to the webhook; why that failed, None when it did not. The address is not told."""
        import httpx  # noqa: PLC0415 - only where there is a webhook

        try:
            async with httpx.AsyncClient(timeout=self._config.timeout) as client:
                answer = await client.post(
                    address, content=body, headers={"Content-Type": "application/json"}
                )
        except httpx.HTTPError as error:
            return f"the webhook cannot be reached: {type(error).__name__}"
        if answer.status_code >= 400:
            return f"the webhook answered {answer.status_code}"
        return None

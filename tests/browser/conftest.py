"""A real Chromium, and the daemon's application over a ledger that a test writes in."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from tests.daemon.conftest import keeper, world
from tuner.daemon.app import make_app
from tuner.daemon.books import Books
from tuner.daemon.hub import Hub
from tuner.daemon.machine import Machine
from tuner.daemon.service import Service

__all__ = ["keeper", "world"]

TOKEN = "t" * 43
ARTIFACTS = Path(__file__).parents[2] / "artifacts" / "browser"
_SIZE: ViewportSize = {"width": 1320, "height": 900}


def chromium() -> str:
    """Where the browser is."""
    found = os.environ.get("TUNER_CHROMIUM") or shutil.which("chromium")
    if found is None:
        pytest.fail("there is no chromium: run .ci/chromium-up, or name one in TUNER_CHROMIUM")
    return found


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser of the test's own: nothing of it is left when the test ends."""
    with sync_playwright() as playwright:
        # Chromium's sandbox cannot be set up by root, nor in most containers.
        found = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield found
        found.close()


@dataclass(slots=True)
class Looker:
    """Somebody who looks at a page, and notes whatever goes wrong in it.

    Attributes:
        context: The browser's context.
        page: What is looked at.
        wrong: Errors of the page, refusals of its policy, boxes that popped up.
        expected: Parts of such lines that are meant to be.
    """

    context: BrowserContext
    page: Page
    wrong: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Note what goes wrong from now on."""
        page = self.page
        page.on(
            "console",
            lambda m: self.wrong.append(m.text) if m.type in {"error", "warning"} else None,
        )
        page.on("pageerror", lambda e: self.wrong.append(str(e)))

        def popped(dialog: object) -> None:
            self.wrong.append(f"a box popped up: {dialog}")

        page.on("dialog", popped)

    def open(self, address: str, view: str = "#/") -> None:
        """Enter by the address that holds the token, and go to a view."""
        self.page.goto(address)
        self.page.locator("main h1").wait_for()
        self.go(view)

    def go(self, view: str) -> None:
        """Go to a view."""
        self.page.evaluate("view => { location.hash = view }", view)
        self.page.locator("main h1").wait_for()

    def picture(self, name: str) -> None:
        """Keep a picture of the whole page."""
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        self.page.wait_for_timeout(300)  # for what is drawn on the next frames
        self.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)

    def check(self) -> None:
        """Nothing may have gone wrong."""
        assert [w for w in self.wrong if not any(e in w for e in self.expected)] == []


@pytest.fixture
def looker(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Looker]:
    """Somebody who looks; in the colours of the parameter, else in light ones."""
    scheme: Literal["light", "dark"] = getattr(request, "param", "light")
    context = browser.new_context(
        viewport=_SIZE,
        color_scheme=scheme,
        accept_downloads=True,
    )
    one = Looker(context, context.new_page())
    one.page.set_default_timeout(20_000)
    one.listen()
    yield one
    one.check()
    context.close()


class Shown:
    """The daemon's application over a state folder, without workers, as a page sees it.

    Args:
        state: The state folder; whoever writes its ledger calls :meth:`hint` afterwards.
    """

    def __init__(self, state: Path) -> None:
        self.hub = Hub()
        self._machine = Machine()
        self._books = Books(state, write=False)
        service = Service(self._books, self.hub, self._machine)
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(service, token=TOKEN),
                lifespan="off",
                log_config=None,
                access_log=False,
                ws="none",
                timeout_graceful_shutdown=3,
            )
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="shown")
        self._thread.start()
        assert self._ready.wait(10)

    @property
    def address(self) -> str:
        """Where a browser enters."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/#token={TOKEN}"

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener.listen(64)
        self._ready.set()
        await self._server.serve(sockets=[self._listener])

    def hint(self) -> None:
        """Say that the ledger has news."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.hub.hint)

    def close(self) -> None:
        """End it."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.hub.close)
        self._server.should_exit = True
        self._thread.join(20)
        self._listener.close()
        self._machine.close()
        self._books.close()
        assert not self._thread.is_alive()

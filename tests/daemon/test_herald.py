"""Programs and webhooks that are told what happens."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes.ledgers import fill
from tuner.daemon.books import Books
from tuner.daemon.config import Config, Events, read_config
from tuner.daemon.herald import Herald, announcement
from tuner.daemon.hub import Hub
from tuner.errors import UserError
from tuner.store.ledger import Ledger
from tuner.store.queue import Queue
from tuner.store.rows import Event


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with Ledger(tmp_path / "state", write=True) as ledger:
        fill(ledger, "old", trials=3)
        Queue(ledger).set_mark("herald", ledger.last_event())
    return tmp_path / "state"


def tell(
    state: Path, config: Events, happen: Callable[[Books], None], seconds: float = 0.0
) -> None:
    """Have a herald tell what happens, until it has told all of it, and at least for so long."""
    books, hub = Books(state, write=True), Hub()

    async def run() -> None:
        task = asyncio.create_task(Herald(books, hub, config).run())
        await asyncio.to_thread(happen, books)
        hub.hint()
        begun = time.monotonic()
        while time.monotonic() - begun < max(seconds, 20):
            with books.write() as (ledger, queue):
                kept = ledger.events(after=queue.mark("herald") or 0, kinds=["study", "told"])
            if not kept and time.monotonic() - begun >= seconds:
                break
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    books.close()


def finish(books: Books) -> None:
    with books.write() as (ledger, _):
        ledger.set_status(1, "finished", "all went well")


def notes(state: Path) -> list[str]:
    with Ledger(state, write=False) as ledger:
        return [event.data["text"] for event in ledger.events(kinds=["note"])]


def script(folder: Path, text: str) -> tuple[str, ...]:
    file = folder / "hook.py"
    file.write_text(text)
    return (sys.executable, str(file))


def test_a_program_is_given_the_event(state: Path, tmp_path: Path) -> None:
    out = tmp_path / "told.jsonl"
    hook = script(
        tmp_path,
        f"import os, sys\nopen({str(out)!r}, 'a').write(sys.stdin.read() + os.environ['TUNER_EVENT'] + '\\n')",
    )
    tell(state, Events(command=hook), finish)
    (line,) = out.read_text().splitlines()
    said = json.loads(line.removesuffix("finished"))
    assert said["text"] == "study old has finished: all went well"
    assert said["data"]["status"] == "finished"
    assert not notes(state)


def test_what_was_told_is_not_told_again_by_the_next_daemon(state: Path, tmp_path: Path) -> None:
    out = tmp_path / "told"
    config = Events(command=script(tmp_path, f"open({str(out)!r}, 'a').write('x')"))
    tell(state, config, finish)
    tell(state, config, lambda _: None, seconds=0.5)
    assert out.read_text() == "x"


def test_only_what_was_asked_for_is_told(state: Path, tmp_path: Path) -> None:
    out = tmp_path / "told"
    hook = script(tmp_path, f"open({str(out)!r}, 'a').write('x')")
    tell(state, Events(command=hook, on=("best", "quarantine")), finish)
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys; sys.exit('no luck')", "ended with 1: no luck"),
        ("import time; time.sleep(60)", "took longer than 0.5 s and was ended"),
    ],
)
def test_a_program_that_fails_is_noted_and_no_more(
    state: Path, tmp_path: Path, text: str, said: str
) -> None:
    tell(
        state,
        Events(command=script(tmp_path, text), timeout=0.5 if "sleep" in text else 20),
        finish,
    )
    (note,) = notes(state)
    assert said in note


def test_a_program_that_is_not_there_is_noted(state: Path) -> None:
    tell(state, Events(command=("/no/such/program",)), finish)
    assert "cannot be run" in notes(state)[0]


@pytest.mark.slow
def test_the_children_of_a_program_that_hangs_are_ended_too(state: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\ntime.sleep(60)"
    )
    tell(state, Events(command=script(tmp_path, text), timeout=3), finish)
    child = int(pid.read_text())
    deadline = time.monotonic() + 5
    while psutil.pid_exists(child) and time.monotonic() < deadline:
        try:
            if psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
                break
        except psutil.NoSuchProcess:
            break
        time.sleep(0.05)
    else:
        assert not psutil.pid_exists(child)


@contextmanager
def web(status: int) -> Iterator[tuple[str, list[Any]]]:
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook?token=canary-77", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_webhook_is_posted_the_event_without_secrets(state: Path) -> None:
    def secret_end(books: Books) -> None:
        books.give(1, {"TOKEN": "all went"})
        finish(books)

    with web(204) as (address, got):
        tell(state, Events(webhook=address), secret_end)
    (said,) = got
    assert said["event"] == "finished"
    assert said["data"]["reason"] == "[TOKEN] well"


def test_a_webhook_that_refuses_is_noted_without_its_address(state: Path) -> None:
    with web(500) as (address, _):
        tell(state, Events(webhook=address), finish)
    tell(state, Events(webhook="http://127.0.0.1:1/canary-77"), finish)
    assert "answered 500" in notes(state)[0]
    assert "cannot be reached" in notes(state)[1]
    assert not [note for note in notes(state) if "canary" in note]


def test_what_is_news() -> None:
    def event(kind: str, **data: Any) -> Event:
        return Event(1, 1, 4, kind, 0.0, data)

    best = announcement(event("told", best=True, score=1234.5), "s")
    assert best is not None
    assert best.text == "study s: trial 4 is the best so far, score 1234.5"
    assert announcement(event("told", best=False, score=1.0), "s") is None
    assert announcement(event("study", status="running", reason=None), "s") is None
    failed = announcement(event("study", status="failed", reason="no engine"), "s")
    assert failed is not None
    assert failed.text == "study s has failed: no engine"
    assert announcement(event("quarantine", reason="r"), "s") is not None  # of an earlier version
    refused = announcement(event("quarantine", device="GPU-0", reason="r"), "s")
    assert refused is not None
    assert refused.text == "study s: GPU-0 is in quarantine: r"
    assert refused.occasion == "quarantine"


# --- daemon.toml ---------------------------------------------------------------------------------


def test_the_configuration_is_read(tmp_path: Path) -> None:
    assert read_config(tmp_path) == Config()
    (tmp_path / "daemon.toml").write_text(
        '[state]\nsize = "2GiB"\n[listen]\ntcp = 8421\n'
        '[events]\non = ["best"]\ncommand = ["notify-send", "tuner"]\ntimeout = "5s"\n'
    )
    found = read_config(tmp_path)
    assert found.state.size == 2 * 2**30
    assert found.listen.tcp == 8421
    assert found.events == Events(on=("best",), command=("notify-send", "tuner"), timeout=5.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[evens]\n", "evens"),
        ("[events]\ncommand = 'rm -rf'\n", "events.command"),
        ("[events]\non = ['never']\n", "events.on.0"),
        ("[events]\nwebhook = 'file:///etc/passwd'\n", "events.webhook"),
        ("[state]\nsize = 'large'\n", "is not a size"),
        ("[state]\nsize = '1MiB'\n", "state.size"),
        ("a = [\n", "not TOML"),
        ("\xff", "not TOML"),
    ],
)
def test_a_wrong_configuration_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "daemon.toml").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=said) as caught:
        read_config(tmp_path)
    assert "daemon.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_configuration_that_others_may_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text("")
    os.chmod(file, 0o664)  # noqa: PTH101
    with pytest.raises(UserError, match="others may write"):
        read_config(tmp_path)

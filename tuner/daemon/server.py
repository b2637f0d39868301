"""The daemon as a process: it holds the state folder, listens, works, and ends in good order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import uvicorn

from tuner import __version__
from tuner.daemon import home
from tuner.daemon.app import make_app
from tuner.daemon.books import Books
from tuner.daemon.config import read_config
from tuner.daemon.herald import Herald
from tuner.daemon.housekeeping import Housekeeping
from tuner.daemon.hub import Hub
from tuner.daemon.machine import Machine
from tuner.daemon.service import Service
from tuner.daemon.supervisor import Supervisor
from tuner.errors import StateUnusable
from tuner.launch.identity import myself
from tuner.launch.subreaper import become_subreaper

_log = logging.getLogger("tuner.daemon")

PATIENCE = 100.0
"""Seconds that trials get to end in good order when the daemon ends."""

_LINGER = 3
_IDLE_LOOK = 5.0


class _Server(uvicorn.Server):
    """Uvicorn without its own way with signals, and without its clock.

    The daemon ends its trials first; and a daemon that nobody asks anything should sleep, where
    uvicorn wakes ten times a second to see whether it is to end and what the date is.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told_to_end = asyncio.Event()

    def end(self) -> None:
        """Listen no longer; requests in hand get a moment."""
        self.should_exit = True
        self._told_to_end.set()

    async def main_loop(self) -> None:
        """Sleep until told to end."""
        await self.on_tick(0)  # once: it makes the headers that every answer has
        await self._told_to_end.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon."""
        yield


class Daemon:
    """One daemon of one state folder.

    Args:
        state: The state folder.
        tcp: Port on 127.0.0.1 to listen on, 0 for any; None for the socket alone.
        idle_exit: Seconds without work and without anybody asking, after which it ends; None for
            never.
    """

    def __init__(self, state: Path, *, tcp: int | None, idle_exit: float | None) -> None:
        self._state = state
        self._config = read_config(state)
        self._tcp = tcp if tcp is not None else self._config.listen.tcp
        self._idle_exit = idle_exit
        self._ending = asyncio.Event()
        self._servers: list[tuple[_Server, asyncio.Task[None]]] = []
        self._listeners: list[socket.socket] = []
        self._token = home.token(state)
        self._books = Books(state, write=True)
        self._hub = Hub()
        self._machine = Machine()
        self._supervisor = Supervisor(self._books, self._hub, self._machine)
        self._address: home.Address | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._service = Service(
            books=self._books,
            hub=self._hub,
            machine=self._machine,
            supervisor=self._supervisor,
            shut_down=self.end,
            open_page=self._open_page,
            stay=self._stay,
            size_limit=self._config.state.size,
        )
        self._app = make_app(self._service, token=self._token)

    async def run(self, ready: int | None) -> None:
        """Listen and work until told to end.

        Args:
            ready: A descriptor that is written to, and closed, when the daemon listens.
        """
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._ending.set)
        try:
            await self._listen(ready)
        except BaseException:
            await self._hang_up()
            raise
        await self._work()

    async def _listen(self, ready: int | None) -> None:
        """Open the socket, and the port where one is wanted, and say where they are."""
        socket_file = self._bind()
        if self._tcp is not None:
            await self._listen_tcp(self._tcp)
        self._address = home.Address(
            **myself(),
            socket=str(socket_file),
            version=__version__,
            started=self._service.started,
            tcp=self._tcp,
        )
        home.write_address(self._state, self._address)
        _log.info("daemon %s listens at %s", __version__, socket_file)
        if ready is not None:
            os.write(ready, b"ready\n")
            os.close(ready)

    async def _work(self) -> None:
        working = asyncio.create_task(self._supervisor.run(), name="supervisor")
        herald = Herald(self._books, self._hub, self._config.events)
        keeper = Housekeeping(self._service, self._hub)
        others = [
            asyncio.create_task(self._watch_idle(), name="idle"),
            asyncio.create_task(herald.run(), name="herald"),
            asyncio.create_task(keeper.run(), name="housekeeping"),
        ]
        ending = asyncio.create_task(self._ending.wait(), name="ending")
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()  # it never ends by itself: this raises what broke it
        finally:
            ending.cancel()
            await self._close(working, others)

    async def _close(self, working: asyncio.Task[None], others: list[asyncio.Task[None]]) -> None:
        _log.info("the daemon ends")
        await self._supervisor.close(PATIENCE)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        with contextlib.suppress(Exception):
            await working
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Listen no longer, and give back all that is held."""
        self._hub.close()
        for server, _ in self._servers:
            server.end()
        await asyncio.gather(*(task for _, task in self._servers), return_exceptions=True)
        for listener in self._listeners:
            listener.close()  # a server that was told to end before it began leaves it open
        if self._address is not None:
            home.forget_address(self._state, self._address)
        elif self._listeners:
            home.socket_path(self._state).unlink(missing_ok=True)
        self._machine.close()
        self._books.close()

    # --- listening -------------------------------------------------------------------------------

    def _bind(self) -> Path:
        path = home.socket_path(self._state)
        home.private_folder(path.parent)
        path.unlink(missing_ok=True)  # whoever holds the state folder owns the name
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(before)
        listener.listen(128)
        self._serve(listener)
        return path

    async def _listen_tcp(self, port: int) -> int:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            listener.close()
            raise StateUnusable(
                f"port {port} on 127.0.0.1 cannot be listened on: {error.strerror}",
                mend="choose another one, or leave it out",
            ) from error
        listener.listen(128)
        self._tcp = int(listener.getsockname()[1])
        self._service.page = f"http://127.0.0.1:{self._tcp}/"
        self._serve(listener)
        return self._tcp

    def _serve(self, listener: socket.socket) -> None:
        config = uvicorn.Config(
            self._app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,  # it would be that of the start: see _Server
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=_LINGER,
        )
        self._listeners.append(listener)
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]), name="server")
        self._servers.append((server, task))

    def _open_page(self) -> str:
        """Open the port for the page, if it is not open; its address with the token. From any thread."""
        if self._loop is None:
            raise RuntimeError("the daemon does not run yet")
        asyncio.run_coroutine_threadsafe(self._open_port(0), self._loop).result(5)
        # Behind the #, which a browser neither sends nor writes into anybody's log.
        return f"{self._service.page}#token={self._token}"

    def _stay(self, tcp: int | None) -> None:
        """As :meth:`stay`, from any thread."""
        if self._loop is None:
            raise RuntimeError("the daemon does not run yet")
        asyncio.run_coroutine_threadsafe(self.stay(tcp), self._loop).result(5)

    async def stay(self, tcp: int | None) -> None:
        """Stay up until told to end, and listen on a port too where one is named.

        Raises:
            StateUnusable: When it listens on another port already, or cannot listen on this one.
        """
        if tcp is not None:
            await self._open_port(tcp)
        self._idle_exit = None

    async def _open_port(self, port: int) -> None:
        """Listen on a port of 127.0.0.1, 0 for any, where it does not yet; the note in the state folder says so."""
        if self._service.page is not None:
            if port not in {0, self._tcp}:
                raise StateUnusable(
                    f"the daemon listens on port {self._tcp} already, and on one alone",
                    mend=f"use that one; or tuner daemon stop, and start it with --tcp {port}",
                )
            return
        await self._listen_tcp(port)
        if self._address is not None:
            self._address = home.Address(**{**_fields(self._address), "tcp": self._tcp})
            home.write_address(self._state, self._address)

    # --- the end ---------------------------------------------------------------------------------

    def end(self) -> None:
        """End in good order. From any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)

    async def _watch_idle(self) -> None:
        """End when there is nothing to do and nobody asks, where and for as long as that is wanted."""
        busy = time.monotonic()
        while (patience := self._idle_exit) is not None:
            await asyncio.sleep(min(_IDLE_LOOK, patience))
            if self._supervisor.busy or self._hub.watched:
                busy = time.monotonic()
            idle = time.monotonic() - max(busy, self._service.last_request)
            if self._idle_exit == patience and idle >= patience:
                _log.info("nothing to do for %g s", patience)
                self._ending.set()
                return


def _fields(address: home.Address) -> dict[str, Any]:
    return {name: getattr(address, name) for name in address.__slots__}


def serve(
    state: Path, *, tcp: int | None, idle_exit: float | None, ready: int | None = None
) -> None:
    """Be the daemon of a state folder until told to end.

    Raises:
        StateUnusable: When another tuner holds the folder.
    """
    home.private_folder(state / "run") if state.is_dir() else state.mkdir(mode=0o700, parents=True)
    _log_into(state / home.LOG)
    become_subreaper()

    async def run() -> None:
        await Daemon(state, tcp=tcp, idle_exit=idle_exit).run(ready)

    asyncio.run(run())


def _log_into(file: Path) -> None:
    """Write what happens into a file that stays small; requests are not written down."""
    handler = RotatingFileHandler(file, maxBytes=2 * 2**20, backupCount=2, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    os.chmod(file, 0o600)  # noqa: PTH101 - the handler's own path
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)


def main() -> int:
    """Be a daemon, as the command line says."""
    import argparse  # noqa: PLC0415 - only here

    from tuner.errors import TunerError, last_words, ungrouped  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="tuner.daemon")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--tcp", type=int)
    parser.add_argument("--idle-exit", type=float)
    parser.add_argument("--ready", type=int)
    asked = parser.parse_args()
    try:
        with ungrouped():
            serve(asked.state, tcp=asked.tcp, idle_exit=asked.idle_exit, ready=asked.ready)
    except TunerError as error:
        print(last_words(error), file=sys.stderr)  # noqa: T201 - its last word
        return error.exit_code
    return 0

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import psutil
import pytest

from tuner.daemon import home
from tuner.daemon.server import Daemon
from tuner.errors import StateUnusable
from tuner.store.ledger import Ledger


@pytest.fixture
def taken() -> socket.socket:
    """A socket that holds a port."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.listen()
    return holder


def test_a_daemon_whose_port_is_taken_leaves_nothing_behind(
    tmp_path: Path, taken: socket.socket
) -> None:
    state = tmp_path / "state"
    home.private_folder(state)

    async def run() -> None:
        await Daemon(state, tcp=taken.getsockname()[1], idle_exit=None).run(None)

    before = psutil.Process().num_fds()
    with (
        taken,
        pytest.raises(StateUnusable, match=r"cannot be listened on: Address already in use"),
    ):
        asyncio.run(run())
    assert psutil.Process().num_fds() == before - 1  # what held the port
    assert home.read_address(state) is None
    assert not home.socket_path(state).exists()
    Ledger(state, write=True).close()  # the folder is free again


def test_a_socket_that_cannot_be_bound_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    home.private_folder(state)
    monkeypatch.setattr(home, "socket_path", lambda _: tmp_path / ("x" * 60) / ("y" * 60))

    async def run() -> None:
        await Daemon(state, tcp=None, idle_exit=None).run(None)

    before = psutil.Process().num_fds()
    with pytest.raises(OSError, match="too long"):
        asyncio.run(run())
    assert psutil.Process().num_fds() == before

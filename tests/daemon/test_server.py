from __future__ import annotations

import asyncio
import os
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


def test_a_daemon_that_is_to_stay_does_not_end_when_it_idles(
    tmp_path: Path, taken: socket.socket
) -> None:
    state = tmp_path / "state"
    home.private_folder(state)

    async def run() -> None:
        daemon = Daemon(state, tcp=None, idle_exit=0.5)
        ours, theirs = os.pipe()
        up = asyncio.Event()
        asyncio.get_running_loop().add_reader(ours, up.set)
        running = asyncio.create_task(daemon.run(theirs))
        await up.wait()  # it is asked before its clock has gone round once
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
        with pytest.raises(StateUnusable, match="cannot be listened on"):
            await daemon.stay(taken.getsockname()[1])
        await daemon.stay(0)
        await asyncio.sleep(1)
        assert not running.done()
        address = home.read_address(state)
        assert address is not None
        assert address.tcp
        daemon.end()
        await running

    with taken:
        asyncio.run(run())

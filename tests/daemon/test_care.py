from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.conftest import Keeper
from tuner import __version__
from tuner.daemon import home
from tuner.daemon.care import look_at_daemon
from tuner.launch.identity import myself
from tuner.trial.care.finding import Finding, Level, well


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(home.socket_path(folder).parent, ignore_errors=True)


def bad(state: Path) -> Finding:
    (found,) = (one for one in look_at_daemon(state, patience=0.5) if one.level is Level.BAD)
    return found


def listening(state: Path) -> socket.socket:
    """A socket of this process, which the note in the state folder calls a daemon."""
    path = home.socket_path(state)
    home.private_folder(path.parent)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    home.write_address(
        state,
        home.Address(**myself(), socket=str(path), version=__version__, started=time.time()),
    )
    return listener


def test_where_nothing_was_ever_run_all_is_well(tmp_path: Path) -> None:
    (found,) = look_at_daemon(tmp_path / "no")
    assert found.level is Level.OK
    assert "none runs here" in found.said


@pytest.mark.parametrize(
    ("text", "mode", "said", "mend"),
    [
        ("[events]\n", 0o606, "others may write this file", "chmod go-w"),
        ("[evnts]\n", 0o600, "evnts: Extra inputs are not permitted", "be-told.md"),
        ("events", 0o600, "not TOML", "be-told.md"),
    ],
)
def test_a_file_that_no_daemon_starts_with(
    state: Path, text: str, mode: int, said: str, mend: str
) -> None:
    (state / home.CONFIG).write_text(text)
    (state / home.CONFIG).chmod(mode)
    found = bad(state)
    assert (found.check, said in found.said) == ("daemon.toml", True)
    assert mend in str(found.mend)
    (state / home.CONFIG).write_text("[listen]\ntcp = 0\n")
    (state / home.CONFIG).chmod(0o600)
    assert well(look_at_daemon(state))


def test_a_log_that_cannot_be_written(state: Path) -> None:
    (state / home.LOG).mkdir()
    assert "daemon.log cannot be written" in bad(state).said


def test_a_folder_for_the_socket_that_is_somebody_elses(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.private_folder(home.socket_path(state).parent)
    assert well(look_at_daemon(state))
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert "must be a folder of yours" in bad(state).said


@pytest.mark.parametrize("how", ["refuses", "is silent"])
def test_a_daemon_that_lives_and_does_not_answer(state: Path, how: str) -> None:
    with listening(state) as listener:
        if how == "is silent":
            listener.listen()
        found = bad(state)
    assert "lives, and does not answer" in found.said
    assert f"kill {os.getpid()}" in str(found.mend)


def test_a_daemon_of_another_version(state: Path) -> None:
    body = b'{"version": "0.0.1", "recovering": false, "running": [], "problems": ["GPU-0: it is sick"]}'
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    def answer() -> None:
        asked = False
        while not asked:  # whether anybody listens is looked at first
            client, _ = listener.accept()
            with client:
                if asked := bool(client.recv(65536)):
                    client.sendall(head + body)

    with listening(state) as listener:
        listener.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        first, second = (one for one in look_at_daemon(state) if one.check == "daemon")
        thread.join()
    assert (first.level, second.level) == (Level.BAD, Level.NOTE)
    assert "is of tuner 0.0.1, and this is" in first.said
    assert second.said.endswith("says: GPU-0: it is sick")


@pytest.mark.slow
def test_a_daemon_that_is_well(keeper: Keeper) -> None:
    with keeper.start() as client:
        while client.get("/v1/health")["recovering"]:
            time.sleep(0.05)
    (found,) = look_at_daemon(keeper.state)
    assert found.level is Level.OK, found
    assert "answers, up" in found.said
    assert found.said.endswith("works on nothing")

from __future__ import annotations

import os
import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.daemon import home
from tuner.errors import StateUnusable
from tuner.launch.identity import myself


def address(state: Path) -> home.Address:
    return home.Address(**myself(), socket=str(home.socket_path(state)), version="1", started=1.0)


def test_a_note_is_good_as_long_as_the_process_that_wrote_it(tmp_path: Path) -> None:
    mine = address(tmp_path)
    assert home.read_address(tmp_path) is None
    home.write_address(tmp_path, mine)
    assert home.read_address(tmp_path) == mine
    assert stat.S_IMODE((tmp_path / home.POINTER).stat().st_mode) == 0o600
    for stale in (
        replace(mine, start_ticks=mine.start_ticks + 1),  # its pid was given to somebody else
        replace(mine, boot="another"),
        replace(mine, pid=2**22 - 1),
    ):
        home.write_address(tmp_path, stale)
        assert home.read_address(tmp_path) is None


@pytest.mark.parametrize("raw", [b"", b"{}", b"[1]", b'{"pid": 1}', b"\xff\xfe"])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / home.POINTER).write_bytes(raw)
    assert home.read_address(tmp_path) is None


@pytest.mark.parametrize("runtime", [True, False])
def test_a_socket_can_be_bound_however_long_the_folders_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, runtime: bool
) -> None:
    if runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp")
    else:
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    deep = tmp_path / ("ü" * 40) / ("y" * 60)
    paths = {home.socket_path(deep), home.socket_path(deep / "other")}
    assert len(paths) == 2
    for path in paths:
        assert len(os.fsencode(path)) < 107
        home.private_folder(path.parent)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        finally:
            path.unlink(missing_ok=True)
            path.parent.rmdir()


def test_a_short_folder_has_its_socket_within(tmp_path: Path) -> None:
    assert home.socket_path(Path("/s")) == Path("/s/run/daemon.sock")


def test_a_private_folder_is_ours_alone(tmp_path: Path) -> None:
    open_one = tmp_path / "open"
    open_one.mkdir(mode=0o755)
    open_one.chmod(0o755)
    home.private_folder(open_one)
    assert stat.S_IMODE(open_one.stat().st_mode) == 0o700
    link = tmp_path / "link"
    link.symlink_to(open_one)
    with pytest.raises(StateUnusable, match="folder of yours"):
        home.private_folder(link)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StateUnusable, match="folder of yours"):
        home.private_folder(file)


def test_a_token_is_kept_and_one_that_others_can_read_is_not(tmp_path: Path) -> None:
    token = home.token(tmp_path)
    assert len(token) >= 43
    assert home.token(tmp_path) == token
    assert stat.S_IMODE(home.token_file(tmp_path).stat().st_mode) == 0o600
    home.token_file(tmp_path).chmod(0o644)
    fresh = home.token(tmp_path)
    assert fresh != token
    assert stat.S_IMODE(home.token_file(tmp_path).stat().st_mode) == 0o600

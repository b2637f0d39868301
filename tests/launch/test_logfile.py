from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.logfile import KeptLog, LogTail


def test_a_log_in_its_place_is_left_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("one\n")
    kept = KeptLog(log, keep=True)
    inode = log.stat().st_ino
    assert kept.path.stat().st_ino == inode
    kept.close()
    kept.close()
    assert log.stat().st_ino == inode


def test_a_removed_log_comes_back_with_what_was_written_since(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with log.open("a") as engine:
        engine.write("one\n")
        engine.flush()
        kept = KeptLog(log, keep=True)
        log.unlink()
        assert kept.path.read_text() == "one\n"
        engine.write("two\n")
        engine.flush()
        assert kept.path.read_text() == "one\ntwo\n"
        engine.write("three\n")
    kept.close()
    assert log.read_text() == "one\ntwo\nthree\n"


def test_a_log_whose_folder_is_gone_is_given_up(tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    folder.mkdir()
    (folder / "engine.log").write_text("one\n")
    kept = KeptLog(folder / "engine.log", keep=True)
    shutil.rmtree(folder)
    kept.close()
    assert not folder.exists()


def test_a_log_of_an_earlier_tuner_may_be_gone(tmp_path: Path) -> None:
    kept = KeptLog(tmp_path / "engine.log", keep=False)
    assert kept.path == tmp_path / "engine.log"
    kept.close()


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_lines_come_whole_however_they_are_written(pieces: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        log = Path(folder, "engine.log")
        log.touch()
        lines: list[str] = []
        with LogTail(log) as tail, log.open("ab") as engine:
            for piece in pieces:
                engine.write(piece)
                engine.flush()
                lines += tail.read()
            assert tail.offset == sum(map(len, pieces))
        whole = b"".join(pieces).split(b"\n")[:-1]
        assert lines == [line.decode(errors="replace") for line in whole]


def test_a_tail_goes_on_through_renaming_removal_and_cutting(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with log.open("ab", buffering=0) as engine, LogTail(log) as tail:
        engine.write(b"one\n")
        assert tail.read() == ["one"]
        log.rename(tmp_path / "engine.log.1")
        engine.write(b"two\n")
        assert tail.read() == ["two"]
        os.truncate(tmp_path / "engine.log.1", 0)
        engine.write(b"3\n")
        assert tail.read() == ["3"]
        (tmp_path / "engine.log.1").unlink()
        engine.write(b"four\n")
        assert tail.read() == ["four"]
    with pytest.raises(ValueError, match="not open"):
        LogTail(log).read()

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tuner.launch import shm
from tuner.trial.care import folders
from tuner.trial.care.finding import Finding, Level


def full(*, blocks: int, files: int) -> os.statvfs_result:
    return os.statvfs_result((4096, 4096, 10**9, blocks, blocks, 10**6, files, files, 0, 255))


def only(found: list[Finding], level: Level) -> Finding:
    (one,) = (each for each in found if each.level is level)
    return one


def test_a_folder_of_ones_own_is_well(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    assert "mode 700" in only(folders.look_at_state(tmp_path / "state"), Level.OK).said


def test_a_folder_that_is_not_there_can_be_made(tmp_path: Path) -> None:
    assert "the first run makes it" in only(folders.look_at_state(tmp_path / "no"), Level.OK).said


def test_no_folder_can_be_made_in_the_kernels_own_file_system() -> None:
    found = only(folders.look_at_state(Path("/proc/foo/state")), Level.BAD)
    assert "/proc/foo/state cannot be made" in found.said
    assert "proc" in found.said


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = only(folders.look_at_state(tmp_path / "no"), Level.BAD)
    assert f"{tmp_path} cannot be written" in found.said
    assert found.mend is not None
    assert "--state" in found.mend


def test_another_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = only(folders.look_at_state(tmp_path), Level.BAD)
    assert "cannot be written by you" in found.said
    assert f"sudo chown -R {os.getuid()} {tmp_path}" in str(found.mend)


def test_another_users_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ledger.sqlite").touch()
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "ledger.sqlite")
    assert "ledger.sqlite" in only(folders.look_at_state(tmp_path), Level.BAD).said


def test_a_folder_that_anybody_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    found = only(folders.look_at_state(tmp_path), Level.BAD)
    assert (found.said.endswith("(mode 777)"), found.mend) == (True, f"chmod 700 {tmp_path}")
    tmp_path.chmod(0o755)  # others may read a checkout
    only(folders.look_at_state(tmp_path), Level.OK)


def test_a_folder_on_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [SimpleNamespace(mountpoint="/", fstype="ext4")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: parts)
    assert folders.look_at_state(tmp_path)[-1].level is Level.OK
    parts.append(SimpleNamespace(mountpoint=str(tmp_path.resolve()), fstype="nfs4"))
    assert "is on nfs4" in only(folders.look_at_state(tmp_path), Level.BAD).said
    parts.append(SimpleNamespace(mountpoint=f"{tmp_path.resolve()}/below", fstype="ext4"))
    assert "is on nfs4" in only(folders.look_at_state(tmp_path), Level.BAD).said


@pytest.mark.parametrize(
    ("seen", "level", "said"),
    [
        (full(blocks=2**20, files=10**6), Level.OK, "4.0 GiB are free for engines"),
        (full(blocks=2**10, files=10**6), Level.BAD, "4.0 MiB are free for engines"),
        (full(blocks=2**20, files=7), Level.BAD, "only 7 more files"),
    ],
)
def test_room_on_a_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seen: os.statvfs_result,
    level: Level,
    said: str,
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: seen)
    (found,) = folders.look_at_room([("engines", tmp_path / "not" / "yet")])
    assert found.level is level
    assert said in found.said
    assert (level is Level.BAD) == ("--prune" in str(found.mend))


def test_the_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folders.look_at_scratch(Path("/tmp")) == []
    long = tmp_path / ("x" * 70)
    long.mkdir()
    only(folders.look_at_scratch(long), Level.NOTE)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "TMPDIR" in str(only(folders.look_at_scratch(long), Level.BAD).mend)


def test_shared_memory_that_nobody_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shm, "SHM", tmp_path)
    monkeypatch.setattr(shm, "_SETTLE", 0.0)
    only(folders.look_at_shared_memory(), Level.OK)
    (tmp_path / "somebodys-data").write_bytes(b"x")
    only(folders.look_at_shared_memory(), Level.OK)
    (tmp_path / "psm_[1]").write_bytes(b"x" * 2048)
    found = only(folders.look_at_shared_memory(), Level.NOTE)
    assert "1 files of an engine's kind (2.0 KiB)" in found.said
    assert f"rm '{tmp_path}/psm_[1]'" in str(found.mend)
    monkeypatch.setattr(shm, "SHM", tmp_path / "none")
    only(folders.look_at_shared_memory(), Level.BAD)

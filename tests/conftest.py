"""What every test gets: a clean environment, and a check that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from tests.leaks import lasting_leftovers
from tuner.launch import shm

# How long an example takes is the machine's business; each test as a whole has its time limit.
settings.register_profile("tuner", deadline=None)
settings.load_profile("tuner")

FAKE = Path(__file__).parent / "fakes" / "fake_vllm.py"


def _children() -> set[tuple[int, float]]:
    """Live descendants. Orphans that came to this process as zombies are buried on the way."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found.add((child.pid, child.create_time()))
            elif child.ppid() == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(child.pid, os.WNOHANG)
    return found


def _listening() -> set[int]:
    return {
        c.laddr.port
        for c in psutil.Process().net_connections("inet")
        if c.status == psutil.CONN_LISTEN
    }


def _open_below(folder: Path) -> list[str]:
    """Files in a folder that this process holds open."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(fd.readlink()))
    return [name for name in found if name.startswith(f"{folder}/")]


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Fail a test that leaves a process, a listening port, an open file of its own or shared memory."""
    before = (_children(), _listening(), shm.snapshot())
    yield
    deadline = time.monotonic() + 3
    while (children := _children() - before[0]) and time.monotonic() < deadline:
        time.sleep(0.05)  # what was killed a moment ago may still be going
    assert not children, f"processes left behind: {children}"
    assert not _listening() - before[1], "a port still listens"
    if _open_below(tmp_path):
        gc.collect()  # what nothing refers to any more is no leak of the test's
        assert not (files := _open_below(tmp_path)), f"files left open: {files}"
    if request.node.get_closest_marker("xdist_group"):
        # The tests that start engines are in groups; the others are spared the wait.
        assert not lasting_leftovers(before[2]), "shared memory left behind"


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests out of the user's state and cache, whatever the environment says."""
    monkeypatch.setenv("TUNER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))

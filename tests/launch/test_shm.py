from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.launch import shm

pytestmark = pytest.mark.xdist_group("engines")

_HOLDER = """
import multiprocessing, sys, time
from multiprocessing import resource_tracker, shared_memory
lock = multiprocessing.get_context("spawn").Lock()
block = shared_memory.SharedMemory(create=True, size=4096)
if sys.argv[1] == "leak":
    for name, kind in ((lock._semlock.name, "semaphore"), (block._name, "shared_memory")):
        resource_tracker.unregister(name, kind)
print(lock._semlock.name.removeprefix("/"), block.name, flush=True)
time.sleep(60)
"""


@pytest.fixture(params=["keep", "leak"])
def holder(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], set[str]]]:
    """A process that holds a named semaphore and a block of shared memory."""
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, request.param], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    semaphore, block = child.stdout.readline().split()
    names = {f"sem.{semaphore}", block}
    yield child, names
    child.kill()
    child.wait()
    child.stdout.close()
    deadline = time.monotonic() + 5
    while set(shm.snapshot()) & names and time.monotonic() < deadline:
        for name in names:
            (shm.SHM / name).unlink(missing_ok=True)


def test_what_a_neighbour_holds_is_not_left_over(
    holder: tuple[subprocess.Popen[str], set[str]],
) -> None:
    child, names = holder
    assert names <= set(shm.snapshot())
    before = tuple(name for name in shm.snapshot() if name not in names)
    assert shm.mapped_by([child.pid]) == names
    assert not names & set(shm.leftovers(before))
    shm.sweep(before, frozenset(names))
    assert names <= set(shm.snapshot())


def test_what_nobody_holds_is_left_over_and_swept(tmp_path: Path) -> None:
    before = shm.snapshot()
    path = shm.SHM / "psm_tuner_test"
    path.touch()
    (shm.SHM / "somebodys_data").touch()
    try:
        assert shm.leftovers(before) == ("psm_tuner_test",)
        assert shm.sweep(before, frozenset({"psm_tuner_test"})) == ()
        assert not path.exists()
        assert (shm.SHM / "somebodys_data").exists()
    finally:
        (shm.SHM / "somebodys_data").unlink()
        path.unlink(missing_ok=True)

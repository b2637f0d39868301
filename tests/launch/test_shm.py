from __future__ import annotations

import os
import secrets
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

_LATE = """
import mmap, sys, time
time.sleep(0.7)
with open(sys.argv[1], "r+b") as block:
    held = mmap.mmap(block.fileno(), 0)
time.sleep(5)
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


@pytest.mark.slow
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


def name(kind: str = "psm_") -> str:
    return f"{kind}test{secrets.token_hex(4)}"


@pytest.fixture
def made() -> Iterator[list[str]]:
    names: list[str] = []
    yield names
    for each in names:
        (shm.SHM / each).unlink(missing_ok=True)


def leave(made: list[str], kind: str = "psm_") -> str:
    """A file as a killed process leaves it: nobody has it mapped."""
    left = name(kind)
    (shm.SHM / left).write_bytes(bytes(4096))
    made.append(left)
    return left


@pytest.mark.parametrize(
    "kind", ["psm_", "sem.mp-", "vllm_offload_", "nccl-", "torch_77_", "nobody_knows_this_kind_"]
)
def test_what_an_engine_was_seen_to_use_goes_at_once(
    made: list[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shm.snapshot()
    left = leave(made, kind)
    monkeypatch.setattr(time, "sleep", pytest.fail)  # nothing is waited for
    assert shm.sweep(before, frozenset({left})) == ()
    assert not (shm.SHM / left).exists()


@pytest.mark.slow
def test_what_was_never_seen_is_doubted_for_a_while_and_then_goes(made: list[str]) -> None:
    before = shm.snapshot()
    left = leave(made)
    began = time.monotonic()
    shm.sweep(before)
    assert time.monotonic() - began >= 2.0
    assert not (shm.SHM / left).exists()


def test_what_was_there_before_and_what_is_of_no_engines_kind_stays(made: list[str]) -> None:
    old = leave(made)
    before = shm.snapshot()
    other = leave(made, "postgres.")
    assert shm.sweep(before, frozenset({old})) == ()
    assert (shm.SHM / old).exists()
    assert (shm.SHM / other).exists()


def test_libraries_write_the_number_of_their_process_into_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shm, "SHM", tmp_path)
    mine = {"torch_42_1234_0", "__KMP_REGISTERED_LIB_42_1000", "sem.loky-42-ab", "loky-42-cd"}
    others = {"torch_421_1_0", "__KMP_REGISTERED_LIB_7_42", "torch_x_42", "postgres.42", "data-42"}
    for each in mine | others:
        (tmp_path / each).touch()
    assert shm.named_by([42, 9]) == mine
    assert shm.named_by([]) == frozenset()
    assert shm.leftovers((), shm.named_by([42])) == tuple(sorted(mine))


@pytest.mark.slow
def test_a_neighbour_that_maps_its_block_a_moment_later_keeps_it(made: list[str]) -> None:
    before = shm.snapshot()
    theirs = leave(made)
    late = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _LATE,
            str(shm.SHM / theirs),
        ]
    )
    assert shm.sweep(before) == ()
    assert (shm.SHM / theirs).exists()
    late.kill()
    late.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_another_users_file_stays(made: list[str]) -> None:
    before = shm.snapshot()
    theirs = leave(made)
    os.chown(shm.SHM / theirs, 65534, 65534)
    assert shm.sweep(before, frozenset({theirs})) == ()
    assert (shm.SHM / theirs).exists()


def test_without_shared_memory_there_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shm, "SHM", tmp_path / "none")
    assert shm.snapshot() == ()
    assert shm.leftovers(()) == ()

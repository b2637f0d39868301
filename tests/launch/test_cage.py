from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.launch.cage import Cage, MemoryUse, cage_in, find_home

V1 = "11:memory:/box/tuner\n4:cpu,cpuacct:/\n0::/\n"
V2 = "0::/user/tuner\n"


def tree(root: Path, *folders: str, **files: str) -> Path:
    for name in folders:
        (root / name).mkdir(parents=True)
    for name, text in files.items():
        (root / name.replace("__", "/").replace("_dot_", ".")).write_text(text)
    return root


def own(folder: Path, text: str) -> Path:
    file = folder / "cgroup"
    file.write_text(text)
    return file


def test_the_home_is_this_process_own_group(tmp_path: Path) -> None:
    root = tree(tmp_path, "memory/box/tuner")
    for place in ("memory", "memory/box/tuner"):
        (root / place / "memory.limit_in_bytes").write_text("1")
    assert find_home(root, own(tmp_path, V1)) == root / "memory/box/tuner"


def test_in_a_container_whose_path_is_the_hosts_the_top_is_the_home(tmp_path: Path) -> None:
    root = tree(tmp_path, "memory")
    (root / "memory/memory.limit_in_bytes").write_text("1")
    assert find_home(root, own(tmp_path, V1)) == root / "memory"


def test_under_version_2_the_group_above_serves_when_no_limit_would_be_left(tmp_path: Path) -> None:
    root = tree(tmp_path, "user/tuner")
    (root / "cgroup.controllers").write_text("memory")
    for place in ("user", "user/tuner"):
        (root / place / "cgroup.procs").write_text("1")
    (root / "user/cgroup.subtree_control").write_text("cpu memory pids")
    (root / "user/tuner/cgroup.subtree_control").write_text("")
    (root / "user/tuner/memory.max").write_text("max\n")
    assert find_home(root, own(tmp_path, V2)) == root / "user"
    (root / "user/tuner/memory.max").write_text("1073741824\n")
    assert find_home(root, own(tmp_path, V2)) is None
    (root / "user/tuner/cgroup.subtree_control").write_text("memory")
    assert find_home(root, own(tmp_path, V2)) == root / "user/tuner"


def test_without_a_memory_controller_there_is_no_home(tmp_path: Path) -> None:
    assert find_home(tmp_path, own(tmp_path, "0::/\n")) is None
    assert find_home(tmp_path, tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("files", "use"),
    [
        (
            {
                "memory.limit_in_bytes": "1000",
                "memory.max_usage_in_bytes": "900",
                "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
            },
            MemoryUse(1000, 900, 2),
        ),
        (
            {
                "memory.max": "1000",
                "memory.peak": "900",
                "memory.events": "low 0\noom 3\noom_kill 1\noom_group_kill 1\n",
            },
            MemoryUse(1000, 900, 1),
        ),
        ({"memory.max": "max"}, MemoryUse()),
    ],
)
def test_what_the_kernel_counted_is_read(
    tmp_path: Path, files: dict[str, str], use: MemoryUse
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert Cage(tmp_path).use() == use


def test_a_group_outside_of_its_parents_limit_is_refused(tmp_path: Path) -> None:
    """On kernels before 5.11 a group need not count for the one that it is made in."""

    class OldKernel(Cage):
        def open(self, limit: int) -> None:
            self.folder.mkdir()
            (self.folder / "memory.limit_in_bytes").write_text("")
            self._limit_v1(limit)

    (tmp_path / "memory.use_hierarchy").write_text("0")
    with pytest.raises(OSError, match="leave the limit"):
        OldKernel(tmp_path / "x").open(1000)


@pytest.mark.skipif(find_home() is None, reason="no control group can be made here")
class TestARealGroup:
    def cage(self) -> Cage:
        home = find_home()
        assert home is not None
        return cage_in(home, f"test-{os.getpid()}-{os.urandom(3).hex()}")

    def test_it_holds_what_is_born_inside_and_goes_when_empty(self) -> None:
        cage = self.cage()
        cage.open(2**28)
        # The shell waits for a line, so that it has no child before it is moved.
        shell = subprocess.Popen(
            ["sh", "-c", "read x; setsid sleep 60 & wait"], stdin=subprocess.PIPE
        )
        try:
            cage.admit(shell.pid)
            assert shell.stdin is not None
            shell.stdin.write(b"\n")
            shell.stdin.flush()
            while len(cage.pids()) < 2:
                assert shell.poll() is None
            assert not cage.remove()
        finally:
            for pid in cage.pids():
                os.kill(pid, 9)
            shell.communicate()
        while not cage.remove():
            assert cage.exists
        assert cage.pids() == ()

    def test_the_kernel_keeps_the_limit_and_counts(self) -> None:
        cage = self.cage()
        cage.open(60 * 2**20)
        hungry = subprocess.Popen(
            [sys.executable, "-c", "input(); x = bytearray(2**28); print(len(x))"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        cage.admit(hungry.pid)
        out, _ = hungry.communicate(b"\n")
        use = cage.use()
        assert hungry.returncode == -9
        assert out == b""
        assert use.limit == 60 * 2**20
        assert use.kills == 1
        assert use.peak is not None
        assert use.peak <= 60 * 2**20
        assert cage.remove()

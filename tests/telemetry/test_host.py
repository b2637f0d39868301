import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tuner.telemetry.host import EngineTree, HostSampler

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'import time; x = bytearray(50_000_000); '
                          'print("up", flush=True); time.sleep(60)'], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    yield parent, child
    for each in (child, psutil.Process(parent.pid) if parent.poll() is None else None):
        if each is not None and each.is_running():
            each.kill()
    parent.communicate()


def test_the_first_sample_has_no_share_of_busy_time() -> None:
    sampler = HostSampler()
    assert sampler.sample().cpu is None
    began = time.process_time()
    while time.process_time() - began < 0.2:
        pass
    second = sampler.sample()
    assert second.cpu is not None
    assert 0 < second.cpu <= 100


def test_memory_heeds_the_groups_limit(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(str(2**20))
    (tmp_path / "sys/fs/cgroup/memory.current").write_text(str(2**19))
    found = HostSampler(tmp_path).sample()
    assert (found.memory_available, found.memory_limit) == (2**19, 2**20)
    machine = HostSampler(tmp_path / "nothing").sample()
    assert machine.memory_limit == psutil.virtual_memory().total


def test_a_tree_counts_children_and_shared_pages(
    family: tuple[subprocess.Popen[str], psutil.Process],
) -> None:
    parent, child = family
    tree = EngineTree([parent.pid])
    sample = tree.sample()
    assert sample.processes == 2
    assert sample.rss > 50_000_000
    assert sample.rss >= child.memory_info().rss
    assert sample.pss is not None
    assert 50_000_000 < sample.pss <= sample.rss
    assert sample.cpu_seconds > 0
    assert tree.sample().pss is None, "the costly read is not made each time"


def test_an_orphan_is_still_followed(
    family: tuple[subprocess.Popen[str], psutil.Process],
) -> None:
    parent, child = family
    tree = EngineTree([parent.pid], pss_every=0)
    assert tree.sample().processes == 2
    parent.kill()
    parent.wait()
    sample = tree.sample()
    assert sample.processes == 1
    assert sample.rss > 50_000_000
    child.kill()
    deadline = time.monotonic() + 5
    while tree.sample().processes and time.monotonic() < deadline:
        time.sleep(0.02)
    assert tree.sample().processes == 0


def test_a_zombie_does_not_count() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        tree = EngineTree([process.pid])
        deadline = time.monotonic() + 10
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert tree.sample().processes == 0


def test_a_root_that_is_gone_is_passed_over() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert EngineTree([process.pid]).sample().processes == 0


def test_a_process_that_may_not_be_read_makes_the_sum_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: psutil.Process) -> None:
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", refuse)
    tree = EngineTree([psutil.Process().pid])
    sample = tree.sample()
    assert sample.pss is None
    assert sample.rss > 0

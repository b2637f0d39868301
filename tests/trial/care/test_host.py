from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tuner.telemetry.cgroup import CgroupMemory
from tuner.telemetry.host import HostSampler
from tuner.telemetry.samples import HostSample
from tuner.trial.care import host
from tuner.trial.care.finding import Level


def sampled(monkeypatch: pytest.MonkeyPatch, available: int | None, limit: int | None) -> None:
    seen = HostSample(cpu=None, memory_available=available, memory_limit=limit)
    monkeypatch.setattr(HostSampler, "sample", lambda _: seen)


@pytest.mark.parametrize(
    ("available", "limit", "level"),
    [(8, 16, Level.OK), (1, 16, Level.BAD), (None, None, Level.BAD)],
)
def test_host_memory(
    monkeypatch: pytest.MonkeyPatch, available: int | None, limit: int | None, level: Level
) -> None:
    gib = 2**30
    sampled(monkeypatch, available and available * gib, limit and limit * gib)
    monkeypatch.setattr(host, "cgroup_memory", lambda: CgroupMemory(4 * gib, None))
    (found,) = host.look_at_memory()
    assert found.level is level
    assert (available is None) or "a control group allows 4.0 GiB" in found.said


def test_who_keeps_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_home", lambda: Path("/sys/fs/cgroup/x"))
    assert host.look_at_cages()[0].level is Level.OK
    monkeypatch.setattr(host, "find_home", lambda: None)
    (found,) = host.look_at_cages()
    assert found.level is Level.NOTE
    assert "Delegate=yes" in str(found.mend)


def test_how_many_files_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    (found,) = host.look_at_files()
    assert (found.level, found.mend) == (Level.NOTE, "ulimit -n 4096")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, -1))
    assert host.look_at_files() == []

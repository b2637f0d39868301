from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import LedgerCorrupt
from tuner.launch.identity import Identity, Member, boot_id, read_stat

NUMBERS = st.integers(0, 2**31)
NAMES = st.lists(st.text(max_size=8), max_size=3).map(tuple)
MEMBERS = st.lists(st.builds(Member, NUMBERS, NUMBERS, NAMES), max_size=3).map(tuple)
IDENTITIES = st.builds(
    Identity,
    boot=st.text(max_size=8),
    pid=NUMBERS,
    start_ticks=NUMBERS,
    born_after=NUMBERS,
    folder=st.text(max_size=8),
    log=st.text(max_size=8),
    log_inode=NUMBERS,
    marker=st.text(max_size=8),
    executable=st.text(max_size=8),
    port=st.none() | NUMBERS,
    scratch=st.text(max_size=8),
    shm_before=NAMES,
    shm_seen=NAMES,
    members=MEMBERS,
    log_device=NUMBERS,
    cgroup=st.none() | st.text(max_size=8),
)


@given(IDENTITIES)
def test_an_identity_reads_back_equal(identity: Identity) -> None:
    assert Identity.from_json(identity.as_json()) == identity


@given(IDENTITIES, st.data())
def test_what_an_older_tuner_recorded_reads_too_and_garbage_is_said(
    identity: Identity, data: st.DataObject
) -> None:
    whole = identity.as_json()
    older = {k: v for k, v in whole.items() if k not in {"log_device", "cgroup"}}
    assert Identity.from_json({**older, "unknown": 1}).pid == identity.pid
    missing = data.draw(st.sampled_from(sorted(set(older))))
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        Identity.from_json({k: v for k, v in older.items() if k != missing})


@pytest.mark.parametrize("members", [None, 5, [{}], ["x"]])
def test_members_that_are_none_are_said(members: Any) -> None:
    with pytest.raises(LedgerCorrupt):
        Identity.from_json({"members": members})


@pytest.mark.parametrize("name", ["a) b (c", "x\ny", ") Z 1 1 1 1"])
def test_a_hostile_name_does_not_confuse_the_reading(tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(program), "30"])
    stat = read_stat(child.pid)
    child.kill()
    child.wait()
    assert stat is not None
    assert (stat.pid, stat.ppid) == (child.pid, os.getpid())
    assert not stat.dead


def test_a_zombie_is_dead_and_the_reaped_are_nobody() -> None:
    child = subprocess.Popen(["true"])
    while (stat := read_stat(child.pid)) is not None and not stat.dead:
        pass
    assert stat is not None
    member = Member(child.pid, stat.start_ticks)
    assert not member.alive
    assert member.stat() == stat
    child.wait()
    assert member.stat() is None
    assert not member.send(signal.SIGKILL)
    assert read_stat(child.pid) is None


def test_the_start_tick_is_part_of_who_it_is() -> None:
    child = subprocess.Popen(["sleep", "30"])
    stat = read_stat(child.pid)
    assert stat is not None
    assert Member(child.pid, stat.start_ticks).alive
    assert not Member(child.pid, stat.start_ticks + 1).alive
    assert not Member(child.pid, stat.start_ticks + 1).send(signal.SIGKILL)
    assert child.poll() is None
    assert Member(child.pid, stat.start_ticks).send(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_the_boot_has_a_name() -> None:
    assert boot_id() == boot_id()
    assert len(boot_id()) == 36

"""The process launcher against engines that do not want to be found, or to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.contract.launchers import PROCESS, SUBJECTS, wait
from tuner.errors import LaunchFailed
from tuner.launch.base import Launch
from tuner.launch.cage import find_home
from tuner.launch.identity import Identity, Member, boot_id, now_ticks, read_stat
from tuner.launch.process import SCRATCH_PREFIX, ProcessLauncher
from tuner.launch.readiness import Ended
from tuner.launch.residue import find_members

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engines")]

needs_cage = pytest.mark.skipif(find_home() is None, reason="no control group can be made here")


def ready(folder: Path, *switches: str, uncaged: bool = False, **env: str) -> Launch:
    subject = SUBJECTS["process-uncaged"] if uncaged else PROCESS
    launch = subject.start(folder, *switches, memory_limit=2**30, **env)
    assert wait(launch).ended is Ended.READY
    return launch


def identity_of(launch: Launch) -> Identity:
    return Identity.from_json(launch.identity())


@pytest.mark.parametrize("uncaged", [False, True], ids=["caged", "uncaged"])
@pytest.mark.parametrize(
    "switches",
    [("forking-worker",), ("threadless-worker", "ignore-term"), ("zombie-children",)],
    ids="+".join,
)
def test_what_forks_or_looks_dead_is_ended_too(
    tmp_path: Path, switches: tuple[str, ...], *, uncaged: bool
) -> None:
    launch = ready(tmp_path, *switches, uncaged=uncaged)
    seen = identity_of(launch)
    proof = launch.stop(at_once=False)
    assert proof.gone, proof.problems
    assert not any(member.stat() for member in (*seen.members, seen.leader))
    assert not Path(seen.scratch).exists()
    assert seen.cgroup is None or not Path(seen.cgroup).exists()


@needs_cage
def test_a_worker_that_made_itself_a_daemon_cannot_leave_the_control_group(tmp_path: Path) -> None:
    launch = ready(tmp_path, "daemonize")
    members = find_members(identity_of(launch))
    (daemon,) = (m for m in members if not {"log", "marker", "session", "cwd"} & set(m.evidence))
    assert "cgroup" in daemon.evidence
    assert len(members) == 3
    assert launch.stop(at_once=False).gone
    assert not daemon.alive


def test_a_leader_that_was_stopped_is_woken_to_end_by_itself(tmp_path: Path) -> None:
    launch = ready(tmp_path, "stopped-leader")
    pid = identity_of(launch).pid
    deadline = time.monotonic() + 5
    while (stat := read_stat(pid)) is not None and stat.state != "T":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    proof = launch.stop(at_once=False)
    assert proof.gone
    assert proof.ladder == ("TERM",)


def test_a_leader_that_ended_long_ago_needs_no_signal(tmp_path: Path) -> None:
    launch = PROCESS.start(tmp_path, "exit0")
    while launch.exit() is None:
        time.sleep(0.02)
    proof = launch.stop(at_once=False)
    assert proof.gone
    assert proof.ladder == ()
    gone = launch.exit()
    assert gone is not None
    assert (gone.status, gone.asked) == (0, False)


@pytest.mark.parametrize("number", range(6))
def test_a_stop_that_races_with_the_end_finds_nothing_left(tmp_path: Path, number: int) -> None:
    """The leader is killed by somebody at about the moment at which it is stopped."""
    launch = ready(tmp_path, "setsid", uncaged=bool(number % 2))
    pid = identity_of(launch).pid
    killer = subprocess.Popen(
        [sys.executable, "-c", f"import os,time; time.sleep({number * 0.01}); os.kill({pid}, 9)"]
    )
    time.sleep(0.03)
    proof = launch.stop(at_once=False)
    killer.wait()
    assert proof.gone, proof.problems
    assert not launch.pids()


@pytest.fixture
def bystanders(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    leader, terminal = os.openpty()
    started: list[subprocess.Popen[bytes]] = []
    started.append(subprocess.Popen(["sleep", "60"], cwd=tmp_path, stdin=terminal))
    yield started
    for each in started:
        each.kill()
        each.wait()
    os.close(leader)
    os.close(terminal)


def test_whoever_only_stands_near_is_not_the_engine(
    tmp_path: Path, bystanders: list[subprocess.Popen[bytes]]
) -> None:
    launch = ready(tmp_path)
    log = launch.log
    bystanders.append(subprocess.Popen(["tail", "-f", str(log)], stdout=subprocess.DEVNULL))
    with (tmp_path / "notes.txt").open("w") as notes:
        bystanders.append(subprocess.Popen(["sleep", "60"], cwd=tmp_path, stdout=notes))
    bystanders.append(
        subprocess.Popen(
            ["sleep", "60"], env={**os.environ, "TUNER_TRIAL_MARKER": "another"}, cwd="/"
        )
    )
    assert not set(launch.pids()) & {b.pid for b in bystanders}
    assert launch.stop(at_once=False).gone
    assert all(b.poll() is None for b in bystanders)


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced", "cut"])
def test_a_log_that_is_taken_away_keeps_its_words_and_its_writers(tmp_path: Path, how: str) -> None:
    launch = ready(tmp_path, "setsid", "retitle", "wipe", uncaged=True)
    log = tmp_path / "engine.log"
    words = log.read_text()
    match how:
        case "removed":
            log.unlink()
        case "renamed":
            log.rename(tmp_path / "engine.log.1")
        case "replaced":
            log.rename(tmp_path / "engine.log.1")
            log.touch()
        case "cut":
            os.truncate(log, 0)
    recorded = {**launch.identity(), "pid": 0, "start_ticks": 0, "members": []}
    again = ProcessLauncher().recover(recorded)
    assert (
        len(again.pids()) == 3
    )  # by the log alone: pid 0 has no session, the titles wiped the rest
    assert launch.stop(at_once=False).gone
    said = launch.log.read_text()
    assert "shutdown triggered" in said
    if how != "cut":
        assert said.startswith(words)


def test_a_reused_pid_is_left_alone(tmp_path: Path) -> None:
    """The recorded numbers are those of another process now, in the same session and group."""
    launcher = ProcessLauncher()
    intent = launcher.prepare(PROCESS.plan(tmp_path))
    neighbour = subprocess.Popen(["sleep", "60"], start_new_session=True)
    stat = read_stat(neighbour.pid)
    assert stat is not None
    recorded = {
        **intent,
        "pid": neighbour.pid,
        "start_ticks": stat.start_ticks - 1,
        "members": [{"pid": neighbour.pid, "start_ticks": stat.start_ticks - 1, "evidence": []}],
    }
    launch = launcher.recover(recorded)
    assert launch.pids() == ()
    assert launch.exit() is not None
    assert launch.stop(at_once=False).gone
    assert neighbour.poll() is None
    neighbour.kill()
    neighbour.wait()


def test_after_a_reboot_nothing_is_signalled_and_the_scratch_folder_goes(tmp_path: Path) -> None:
    launcher = ProcessLauncher()
    neighbour = subprocess.Popen(["sleep", "60"], start_new_session=True)
    stat = read_stat(neighbour.pid)
    assert stat is not None
    scratch = tmp_path / f"{SCRATCH_PREFIX}abc"
    scratch.mkdir()
    recorded = {
        **launcher.prepare(PROCESS.plan(tmp_path)),
        "boot": "another",
        "pid": neighbour.pid,
        "start_ticks": stat.start_ticks,
        "scratch": str(scratch),
    }
    launch = launcher.recover(recorded)
    assert launch.pids() == ()
    assert launch.stop(at_once=False).gone
    assert neighbour.poll() is None
    assert not scratch.exists()
    neighbour.kill()
    neighbour.wait()


def test_a_folder_that_is_no_scratch_folder_is_never_removed(tmp_path: Path) -> None:
    launcher = ProcessLauncher()
    precious = tmp_path / "precious"
    precious.mkdir()
    recorded = {**launcher.prepare(PROCESS.plan(tmp_path)), "scratch": str(precious)}
    assert launcher.recover(recorded).stop(at_once=True).gone
    assert precious.is_dir()


def test_a_program_that_is_not_there_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    launcher = ProcessLauncher()
    wanted = PROCESS.plan(tmp_path, memory_limit=2**30)
    missing = type(wanted)(("/nowhere/python",), wanted.env, wanted.folder, memory_limit=2**30)
    intent = launcher.prepare(missing)
    with pytest.raises(LaunchFailed, match="/nowhere/python cannot be started"):
        launcher.start(missing, intent)
    seen = Identity.from_json(intent)
    assert not Path(seen.scratch).exists()
    assert seen.cgroup is None or not Path(seen.cgroup).exists()


def test_the_engines_temporary_folder_is_its_own_and_goes_with_it(tmp_path: Path) -> None:
    launch = ready(tmp_path)
    seen = identity_of(launch)
    scratch = Path(seen.scratch)
    assert psutil.Process(seen.pid).environ()["TMPDIR"] == str(scratch)
    assert scratch.stat().st_mode & 0o777 == 0o700
    (scratch / "left").write_text("x")
    assert launch.stop(at_once=False).gone
    assert not scratch.exists()


def test_nothing_is_made_before_the_intent_can_be_recorded(tmp_path: Path) -> None:
    launcher = ProcessLauncher()
    seen = Identity.from_json(launcher.prepare(PROCESS.plan(tmp_path, memory_limit=2**30)))
    assert not Path(seen.scratch).exists()
    assert seen.cgroup is None or not Path(seen.cgroup).exists()
    assert (seen.pid, seen.start_ticks, seen.boot) == (0, 0, boot_id())


def test_a_signal_never_reaches_this_process_or_the_first() -> None:
    me = read_stat(os.getpid())
    first = read_stat(1)
    assert me is not None
    assert first is not None
    assert not Member(me.pid, me.start_ticks).send(signal.SIGTERM)
    assert not Member(1, first.start_ticks).send(signal.SIGCONT)


def test_a_process_started_now_is_not_older_than_now() -> None:
    for _ in range(20):
        before = now_ticks()
        child = subprocess.Popen(["sleep", "5"])
        stat = read_stat(child.pid)
        child.kill()
        child.wait()
        assert stat is not None
        assert before <= stat.start_ticks <= now_ticks() + 2

"""One contract for all launchers: what is started is ready, fails with its reason, and is gone afterwards."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.contract.launchers import Subject, wait
from tuner.launch import ports, shm
from tuner.launch.base import Launch
from tuner.launch.readiness import Ended

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engines")]


def ended(launch: Launch, seconds: float = 10.0) -> None:
    """Wait until the engine has ended by itself."""
    deadline = time.monotonic() + seconds
    while launch.exit() is None:
        assert time.monotonic() < deadline, "the engine still runs"
        time.sleep(0.02)


def test_a_healthy_engine_is_ready_and_gone_after_a_friendly_stop(
    tmp_path: Path, subject: Subject
) -> None:
    launch = subject.start(tmp_path)
    assert wait(launch).ended is Ended.READY
    assert len(launch.pids()) == 3  # server, core, worker
    assert launch.port_holder() is None
    proof = launch.stop(at_once=False)
    assert proof.gone
    assert proof.ladder == ("TERM",)
    gone = launch.exit()
    assert gone is not None
    assert (gone.status, gone.asked) == (0, True)
    assert not launch.pids()


@pytest.mark.parametrize(
    "switches",
    [
        ("ignore-term",),
        ("setsid",),
        ("setsid", "retitle", "wipe", "ignore-term"),
        ("stopped-worker", "ignore-term"),
        ("leak-shm", "ignore-term"),
        ("leak-library-shm", "ignore-term"),
    ],
    ids="+".join,
)
def test_whatever_it_does_it_is_gone_afterwards(
    tmp_path: Path, subject: Subject, switches: tuple[str, ...]
) -> None:
    before = shm.snapshot()
    launch = subject.start(tmp_path, *switches)
    assert wait(launch).ended is Ended.READY
    numbers = [str(pid) for pid in launch.pids()]
    proof = launch.stop(at_once=False)
    assert proof.gone, proof.problems
    assert not launch.pids()
    assert not shm.leftovers(before)
    fresh = set(shm.snapshot()) - set(before)
    assert not [name for name in fresh if any(number in name for number in numbers)]
    assert not ports.is_open(int(launch.base_url.rsplit(":", 1)[1]))


def test_orphans_of_a_dead_leader_are_found_and_ended(tmp_path: Path, subject: Subject) -> None:
    launch = subject.start(tmp_path, "leader-dies", "setsid", "retitle", "wipe", FAKE_DELAY="2.0")
    assert wait(launch).ended is Ended.READY
    assert len(launch.pids()) == 3
    ended(launch)
    gone = launch.exit()
    assert gone is not None
    assert (gone.signal, gone.asked) == (signal.SIGKILL, False)
    assert len(launch.pids()) == subject.orphans
    assert launch.stop(at_once=False).gone


def test_a_stop_during_the_start_kills_at_once(tmp_path: Path, subject: Subject) -> None:
    launch = subject.start(tmp_path, "hang-start")
    proof = launch.stop(at_once=True)
    assert proof.gone
    assert proof.ladder == ("KILL",)  # no friendly wait


def test_a_second_stop_finds_nothing_and_says_so(tmp_path: Path, subject: Subject) -> None:
    launch = subject.start(tmp_path)
    assert launch.stop(at_once=True).gone
    again = launch.stop(at_once=False)
    assert again.gone
    assert again.ladder == ()


@pytest.mark.parametrize(
    ("switches", "argv", "status", "number"),
    [
        (("oom",), (), 1, None),
        (("exit0",), (), 0, None),
        (("segfault",), (), None, signal.SIGSEGV),
        ((), ("--num-scheduler-steps", "4"), 2, None),
    ],
)
def test_an_engine_that_ends_ends_the_wait_with_its_status(
    tmp_path: Path,
    subject: Subject,
    switches: tuple[str, ...],
    argv: tuple[str, ...],
    status: int | None,
    number: int | None,
) -> None:
    launch = subject.start(tmp_path, *switches, argv=argv)
    waited = wait(launch)
    assert waited.ended is Ended.EXITED
    assert waited.exit is not None
    assert (waited.exit.status, waited.exit.signal, waited.exit.asked) == (status, number, False)
    assert launch.stop(at_once=True).gone


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switch", "word", "quiet", "silent"),
    [("hang-start", "processor time", 2.2, 20.0), ("spin-start", "no new log line for", 20.0, 3.0)],
)
def test_a_silent_start_is_a_hang_whether_it_sleeps_or_spins(
    tmp_path: Path, subject: Subject, switch: str, word: str, quiet: float, silent: float
) -> None:
    launch = subject.start(tmp_path, switch)
    waited = wait(launch, quiet=quiet, silent=silent)
    assert launch.stop(at_once=True).gone
    assert waited.ended is Ended.HUNG
    assert word in waited.detail


def test_health_without_completions_is_broken_not_ready(tmp_path: Path, subject: Subject) -> None:
    launch = subject.start(tmp_path, "dead-healthy")
    waited = wait(launch)
    assert httpx.get(f"{launch.base_url}/health").status_code == 200
    assert launch.stop(at_once=False).gone
    assert (waited.ended, waited.status) == (Ended.BROKEN, 500)


@pytest.mark.parametrize("switch", ["hang-start", "never-answer"])
def test_a_wait_can_be_cancelled_at_once(tmp_path: Path, subject: Subject, switch: str) -> None:
    launch = subject.start(tmp_path, switch)
    cancelled = threading.Event()
    threading.Timer(1.0, cancelled.set).start()
    waited = wait(launch, quiet=30, silent=30, cancelled=cancelled)
    assert launch.stop(at_once=True).gone
    assert waited.ended is Ended.CANCELLED
    assert waited.seconds < 20  # the deadlines that it did not wait for are 30


def test_an_engine_over_its_memory_limit_is_killed_whole_and_says_so(
    tmp_path: Path, limited: Subject
) -> None:
    launch = limited.start(tmp_path, FAKE_BALLAST_MIB="400", memory_limit=250 * 2**20)
    ended(launch, 20)
    assert launch.stop(at_once=True).gone
    gone = launch.exit()
    assert gone is not None
    assert gone.over_limit
    use = launch.memory()
    assert use.limit == 250 * 2**20
    assert use.kills
    assert use.peak is not None
    assert use.peak > 200 * 2**20


_DYING_TUNER = """
import json, os, sys
from pathlib import Path
from tests.contract.launchers import SUBJECTS, wait
subject = SUBJECTS[sys.argv[4]]
launcher = subject.make()
wanted = subject.plan(Path(sys.argv[1]), *filter(None, sys.argv[2].split(",")), memory_limit=2**30)
intent = launcher.prepare(wanted)
Path(sys.argv[1], "identity.json").write_text(json.dumps(intent))
launch = launcher.start(wanted, intent)
if sys.argv[3] == "recorded":
    wait(launch)
    Path(sys.argv[1], "identity.json").write_text(json.dumps(launch.identity()))
elif sys.argv[3] == "ready":
    wait(launch)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("known", ["intent", "ready", "recorded"])
@pytest.mark.parametrize("switches", ["", "setsid,retitle,wipe"])
def test_a_tuner_that_was_killed_finds_its_engine_again(
    tmp_path: Path, limited: Subject, switches: str, known: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DYING_TUNER, str(tmp_path), switches, known, limited.name],
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    launcher = limited.make()
    recorded = json.loads((tmp_path / "identity.json").read_text())
    launch = launcher.recover(recorded)
    if known != "intent":
        assert len(launch.pids()) == 3
    assert launch.stop(at_once=True).gone
    assert not launch.pids()


def test_an_engine_that_was_only_meant_to_be_started_is_gone(
    tmp_path: Path, limited: Subject
) -> None:
    launcher = limited.make()
    intent = launcher.prepare(limited.plan(tmp_path, memory_limit=2**30))
    launch = launcher.recover(intent)
    assert launch.pids() == ()
    assert launch.stop(at_once=True).gone

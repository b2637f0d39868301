"""One contract for all launchers: what is started is ready, fails with its reason, and is gone afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from tests.contract.launchers import plan, wait
from tuner.launch import ports, shm
from tuner.launch.base import Launch
from tuner.launch.identity import Identity
from tuner.launch.process import ProcessLauncher
from tuner.launch.readiness import Ended

pytestmark = pytest.mark.xdist_group("engines")


def start(folder: Path, *switches: str, argv: tuple[str, ...] = (), **env: str) -> Launch:
    launcher = ProcessLauncher()
    wanted = plan(folder, *switches, argv=argv, **env)
    return launcher.start(wanted, launcher.prepare(wanted))


def test_a_healthy_engine_is_ready_and_gone_after_a_friendly_stop(tmp_path: Path) -> None:
    launch = start(tmp_path)
    assert wait(launch).ended is Ended.READY
    assert len(launch.pids()) == 3  # server, core, worker
    proof = launch.stop(at_once=False)
    assert proof.gone
    assert proof.ladder == ("TERM",)
    gone = launch.exit()
    assert gone is not None
    assert (gone.status, gone.asked) == (0, True)


@pytest.mark.parametrize(
    "switches",
    [
        ("ignore-term",),
        ("setsid",),
        ("setsid", "retitle"),
        ("setsid", "retitle", "wipe"),
        ("setsid", "retitle", "wipe", "ignore-term"),
        ("stopped-worker", "ignore-term"),
        ("leak-shm", "ignore-term"),
    ],
    ids="+".join,
)
def test_whatever_it_does_it_is_gone_afterwards(tmp_path: Path, switches: tuple[str, ...]) -> None:
    before = shm.snapshot()
    launch = start(tmp_path, *switches)
    assert wait(launch).ended is Ended.READY
    pids = launch.pids()
    proof = launch.stop(at_once=False)
    assert proof.gone, proof.problems
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not shm.leftovers(before)
    assert not ports.is_open(int(launch.base_url.rsplit(":", 1)[1]))


def test_orphans_of_a_dead_leader_are_found_and_ended(tmp_path: Path) -> None:
    launch = start(tmp_path, "leader-dies", "setsid", "retitle", "wipe", FAKE_DELAY="1.5")
    assert wait(launch).ended is Ended.READY
    assert len(launch.pids()) == 3
    while launch.exit() is None:
        time.sleep(0.05)
    gone = launch.exit()
    assert gone is not None
    assert (gone.signal, gone.asked) == (signal.SIGKILL, False)
    assert len(launch.pids()) == 2
    assert launch.stop(at_once=False).gone


def test_a_stop_during_the_start_kills_at_once(tmp_path: Path) -> None:
    launch = start(tmp_path, "hang-start")
    began = time.monotonic()
    proof = launch.stop(at_once=True)
    assert proof.gone
    assert proof.ladder == ("KILL",)
    assert time.monotonic() - began < 1.5  # no friendly wait


@pytest.mark.parametrize(
    ("switches", "argv", "status", "number"),
    [
        (("oom",), (), 1, None),
        (("exit0",), (), 0, None),
        (("segfault",), (), None, signal.SIGSEGV),
        ((), ("--num-scheduler-steps", "4"), 2, None),
        ((), ("--no-enable-chunked-prefill",), 1, None),
    ],
)
def test_an_engine_that_ends_ends_the_wait_with_its_status(
    tmp_path: Path,
    switches: tuple[str, ...],
    argv: tuple[str, ...],
    status: int | None,
    number: int | None,
) -> None:
    launch = start(tmp_path, *switches, argv=argv)
    waited = wait(launch)
    assert waited.ended is Ended.EXITED
    assert waited.exit is not None
    assert (waited.exit.status, waited.exit.signal, waited.exit.asked) == (status, number, False)
    assert launch.stop(at_once=True).gone


@pytest.mark.parametrize(
    ("switch", "word"), [("hang-start", "processor time"), ("spin-start", "no log line")]
)
def test_a_silent_start_is_a_hang_whether_it_sleeps_or_spins(
    tmp_path: Path, switch: str, word: str
) -> None:
    launch = start(tmp_path, switch)
    waited = wait(launch, quiet=2.5, silent=4.0)
    assert launch.stop(at_once=True).gone
    assert waited.ended is Ended.HUNG
    assert word in waited.detail


def test_health_without_completions_is_broken_not_ready(tmp_path: Path) -> None:
    launch = start(tmp_path, "dead-healthy")
    waited = wait(launch)
    assert httpx.get(f"{launch.base_url}/health").status_code == 200
    assert launch.stop(at_once=False).gone
    assert (waited.ended, waited.status) == (Ended.BROKEN, 500)


def test_a_wait_can_be_cancelled(tmp_path: Path) -> None:
    launch = start(tmp_path, "hang-start")
    cancelled = threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    assert wait(launch, cancelled=cancelled).ended is Ended.CANCELLED
    assert launch.stop(at_once=True).gone


def test_an_engine_over_its_memory_limit_is_killed_and_says_so(tmp_path: Path) -> None:
    launcher = ProcessLauncher()
    wanted = plan(tmp_path, FAKE_BALLAST_MIB="400")
    wanted = type(wanted)(
        wanted.argv, wanted.env, wanted.folder, memory_limit=250 * 2**20, grace=wanted.grace
    )
    launch = launcher.start(wanted, launcher.prepare(wanted))
    while launch.exit() is None:
        time.sleep(0.05)
    assert launch.stop(at_once=True).gone
    gone = launch.exit()
    assert gone is not None
    assert gone.over_limit


_DYING_TUNER = """
import json, os, sys
from pathlib import Path
from tests.contract.launchers import plan, wait
from tuner.launch.process import ProcessLauncher
launcher = ProcessLauncher()
wanted = plan(Path(sys.argv[1]), *filter(None, sys.argv[2].split(",")))
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
    tmp_path: Path, switches: str, known: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DYING_TUNER, str(tmp_path), switches, known], check=False
    )
    assert done.returncode == -signal.SIGKILL
    launcher = ProcessLauncher()
    recorded = json.loads((tmp_path / "identity.json").read_text())
    launch = launcher.recover(recorded)
    if known != "intent":
        assert len(launch.pids()) == 3
    assert launch.stop(at_once=True).gone
    assert not launch.pids()


def test_a_shell_in_the_folder_and_a_reader_of_the_log_are_not_the_engine(tmp_path: Path) -> None:
    launch = start(tmp_path)
    assert wait(launch).ended is Ended.READY
    leader, terminal = os.openpty()
    bystanders = [
        subprocess.Popen(["sleep", "60"], cwd=tmp_path, stdin=terminal),
        subprocess.Popen(["tail", "-f", str(launch.log)], stdout=subprocess.DEVNULL),
    ]
    try:
        ours = set(launch.pids())
        assert not ours & {b.pid for b in bystanders}
        assert launch.stop(at_once=False).gone
        assert all(b.poll() is None for b in bystanders)
    finally:
        for bystander in bystanders:
            bystander.kill()
            bystander.wait()
        os.close(leader)
        os.close(terminal)


def test_another_boots_engine_has_no_members(tmp_path: Path) -> None:
    launcher = ProcessLauncher()
    wanted = plan(tmp_path)
    recorded = {**launcher.prepare(wanted), "boot": "another", "pid": 1, "start_ticks": 1}
    launch = launcher.recover(recorded)
    assert launch.pids() == ()
    assert launch.stop(at_once=True).gone
    assert Identity.from_json(recorded).as_json() == recorded

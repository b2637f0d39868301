from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from tuner.daemon import home
from tuner.daemon.client import Client
from tuner.daemon.start import await_end, start
from tuner.errors import StateUnusable, TunerError, UserError


def test_a_log_that_cannot_be_written_is_said_and_nothing_stays_open(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / home.LOG).mkdir(parents=True)
    before = psutil.Process().num_fds()
    with pytest.raises(StateUnusable, match=r"daemon\.log: .* cannot be written: Is a directory"):
        start(state)
    assert psutil.Process().num_fds() == before


def test_a_process_that_cannot_be_made_is_not_blamed_on_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", full)
    before = psutil.Process().num_fds()
    with pytest.raises(
        TunerError, match=r"process cannot be started: .*temporarily unavail"
    ) as said:
        start(tmp_path / "state")
    assert not isinstance(said.value, StateUnusable)
    assert "state" not in str(said.value)
    assert psutil.Process().num_fds() == before


def test_no_file_left_for_the_pipe_is_not_blamed_on_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pipe", full)
    with pytest.raises(
        TunerError, match=r"process cannot be started: .*Too many open files"
    ) as said:
        start(tmp_path / "state")
    assert not isinstance(said.value, StateUnusable)


@pytest.mark.slow
def test_a_daemon_starts_without_what_only_a_search_or_a_report_needs() -> None:
    heavy = ("optuna", "scipy", "sqlalchemy", "transformers", "tokenizers")
    said = "import sys, tuner.daemon.server; print(*(m for m in sys.argv[1:] if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", said, *heavy], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.slow
def test_a_daemon_that_runs_opens_the_port_that_is_asked_for_or_says_why_not(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    first, _ = start(state, idle_exit=600)
    try:
        assert first.tcp is None
        found, fresh = start(state, tcp=0)
        assert (found.pid, fresh) == (first.pid, False)
        assert found.tcp is not None
        asked = httpx.get(f"http://127.0.0.1:{found.tcp}/v1/health")
        assert asked.status_code == 401  # it listens, and wants the token
        assert start(state, tcp=found.tcp)[0] == found
        with pytest.raises(UserError, match=f"listens on port {found.tcp} already"):
            start(state, tcp=found.tcp - 1)
        assert start(state, idle_exit=600)[0] == found
    finally:
        with Client(state, need=True) as client:
            client.post("/v1/shutdown")
        await_end(first, patience=30)


@pytest.mark.slow
def test_a_daemon_that_nobody_asks_sleeps(tmp_path: Path) -> None:
    address, _ = start(tmp_path / "state")
    try:
        wait_until_it_sleeps(address.pid)
        before = wakes(address.pid)
        time.sleep(2)
        assert wakes(address.pid) - before <= 4  # a clock of ten ticks a second makes 20 and more
        with Client(tmp_path / "state", need=True) as client:
            assert client.get("/v1/studies") == []  # and it is soon awake again
    finally:
        with Client(tmp_path / "state", need=True) as client:
            client.post("/v1/shutdown")
        await_end(address, patience=30)


def wakes(pid: int) -> int:
    """How often the threads of a process went to sleep so far."""
    status = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(
        int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", s, re.MULTILINE)[0]) for s in status
    )


def wait_until_it_sleeps(pid: int) -> None:
    """Wait until what a daemon does once, after its start, is done."""
    deadline, last = time.monotonic() + 20, -1
    while (now := wakes(pid)) != last and time.monotonic() < deadline:
        last = now
        time.sleep(1)

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.build.lock import build_lock, try_lock

_HOLDER = """
import subprocess, sys
from pathlib import Path
from tuner.build.lock import build_lock
with build_lock(Path(sys.argv[1])) as handle:
    child = subprocess.Popen(["sleep", "60"], pass_fds=(handle,))
    print(child.pid, flush=True)
    child.wait()
"""


def test_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with build_lock(path), try_lock(path) as handle:
        assert handle is None
    with try_lock(path) as handle:
        assert handle is not None


def test_whoever_waits_hears_who_holds_it_and_may_give_up(tmp_path: Path) -> None:
    heard: list[str] = []

    def waiting(holder: str) -> None:
        heard.append(holder)
        if len(heard) == 2:
            raise KeyboardInterrupt

    path = tmp_path / "x.lock"
    with (
        build_lock(path),
        pytest.raises(KeyboardInterrupt),
        build_lock(path, waiting=waiting),
    ):
        pytest.fail("the lock was held")
    assert heard == [f"process {os.getpid()}"] * 2


def test_a_step_that_outlives_its_builder_keeps_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    builder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert builder.stdout is not None
    step = int(builder.stdout.readline())
    try:
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        builder.stdout.close()
        with try_lock(path) as handle:
            assert handle is None
    finally:
        os.kill(step, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with try_lock(path) as handle:
            if handle is not None:
                return
        time.sleep(0.02)
    pytest.fail("the lock is still held although all its holders are gone")

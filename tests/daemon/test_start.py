from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tuner.daemon import home
from tuner.daemon.start import start
from tuner.errors import StateUnusable, TunerError


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


def test_a_daemon_starts_without_what_only_a_search_or_a_report_needs() -> None:
    heavy = ("optuna", "scipy", "sqlalchemy", "transformers", "tokenizers")
    said = "import sys, tuner.daemon.server; print(*(m for m in sys.argv[1:] if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", said, *heavy], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []

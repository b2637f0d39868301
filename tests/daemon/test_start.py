from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tuner.daemon import home
from tuner.daemon.start import start
from tuner.errors import StateUnusable


def test_a_log_that_cannot_be_written_is_said_and_nothing_stays_open(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / home.LOG).mkdir(parents=True)
    before = psutil.Process().num_fds()
    with pytest.raises(StateUnusable, match=r"daemon\.log: .* cannot be written: Is a directory"):
        start(state)
    assert psutil.Process().num_fds() == before

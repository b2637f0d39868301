from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.errors import StateUnusable
from tuner.store.locks import hold_folder, hold_study, holder_of, study_lock


def test_a_study_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with hold_study(tmp_path, {"study": "s"}):
        assert holder_of(study_lock(tmp_path)) == {"pid": os.getpid(), "study": "s"}
        with pytest.raises(StateUnusable, match=f"process {os.getpid()} works on the study"):
            hold_study(tmp_path)
    assert holder_of(study_lock(tmp_path)) is None
    hold_study(tmp_path).release()


def test_a_lock_that_nobody_ever_took_has_no_holder(tmp_path: Path) -> None:
    assert holder_of(tmp_path / "none" / "study.lock") is None


def test_a_holder_that_is_killed_lets_go(tmp_path: Path) -> None:
    text = (
        "import sys, time\nfrom pathlib import Path\nfrom tuner.store.locks import hold_folder\n"
        "held = hold_folder(Path(sys.argv[1]))\nprint('held', flush=True)\ntime.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", text, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(StateUnusable, match="another tuner"):
        hold_folder(tmp_path)
    child.kill()
    child.wait()
    child.stdout.close()
    hold_folder(tmp_path).release()


def test_a_child_does_not_inherit_a_lock(tmp_path: Path) -> None:
    held = hold_folder(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    held.release()
    try:
        hold_folder(tmp_path).release()
    finally:
        child.kill()
        child.wait()

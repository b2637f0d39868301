from __future__ import annotations

from pathlib import Path

import pytest

from tuner.build.failure import failed, mend_for
from tuner.errors import BuildFailed, NoSpaceLeft


@pytest.mark.parametrize(
    ("log", "mend"),
    [
        ("The virtual environment was not created: ensurepip is not available.", "python3-venv"),
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", "TUNER_TORCH_INDEX"),
        ("ERROR: No matching distribution found for numba==0.65.0", "numba==0.65.0 is on none"),
        ("Failed to resolve: Temporary failure in name resolution", "cannot be reached"),
        ("error: command 'g++' failed: No such file or directory", "apt-get install g++"),
        ("OSError: libnuma.so.1: cannot open shared object file: No such file", "libnuma.so.1"),
        ('docker: could not select device driver "" with capabilities: [[gpu]]', "toolkit"),
        (
            'error gathering device information while adding custom device "/dev/iluvatar0"',
            "/dev/iluvatar0 is not there",
        ),
        ("#12 3.456 mend: use another base\n#12 ERROR", "use another base"),
    ],
)
def test_a_known_failure_has_a_mend(log: str, mend: str) -> None:
    assert mend in (mend_for(log) or "")


def test_an_unknown_failure_has_none() -> None:
    assert mend_for("Segmentation fault") is None


def test_the_steps_own_word_comes_first() -> None:
    assert mend_for("mend: first\nmend: last\nNetwork is unreachable\n") == "last"


def test_only_the_steps_own_part_of_the_log_counts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("No space left on device\n")
    start = log.stat().st_size
    with log.open("a") as out:
        out.write("\n".join(f"line {n}" for n in range(50)))
    error = failed("late", log, start=start)
    assert isinstance(error, BuildFailed)
    assert error.tail.splitlines() == [f"line {n}" for n in range(38, 50)]
    assert isinstance(failed("early", log), NoSpaceLeft)

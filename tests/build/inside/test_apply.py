from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tuner.build.inside
from tuner.build.inside.apply import StepError, fill

NEEDS = {"needs_module": None, "needs_program": None, "timeout_s": 20}
PLAN = {"root": "/engine", "recipe": "/engine/recipe", "sources": "/engine/sources"}


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A folder as an engine has it: the code under its own name, a recipe, no tuner."""
    (tmp_path / "tuner_inside").symlink_to(Path(tuner.build.inside.__file__).parent)
    (tmp_path / "recipe").mkdir()
    return tmp_path


def _apply(inside: Path, **step: Any) -> subprocess.CompletedProcess[str]:
    plan = {
        "root": str(inside),
        "recipe": str(inside / "recipe"),
        "sources": str(inside / "sources"),
        "wheelhouse": str(inside / "wheels"),
        "steps": [{"name": "it", **step}],
    }
    (inside / "plan.json").write_text(json.dumps(plan))
    return subprocess.run(
        [sys.executable, "-m", "tuner_inside", "apply", "plan.json", "0"],
        cwd=inside,
        env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_names_in_braces_are_filled() -> None:
    assert fill("{recipe}/x {root}", PLAN) == "/engine/recipe/x /engine"
    assert fill("{python}", PLAN) == sys.executable
    with pytest.raises(StepError, match="nothere"):
        fill("{nothere}", PLAN)


def test_a_file_is_put_in_place_byte_for_byte(inside: Path) -> None:
    (inside / "recipe" / "a.sh").write_bytes(b"#!/bin/sh\n")
    done = _apply(inside, do="copy", file="a.sh", to="{root}/bin/a.sh", mode="755")
    assert done.returncode == 0
    assert (inside / "bin" / "a.sh").read_bytes() == b"#!/bin/sh\n"
    assert (inside / "bin" / "a.sh").stat().st_mode & 0o777 == 0o755


def test_a_diff_from_the_recipe_is_applied(inside: Path) -> None:
    (inside / "lib.py").write_text("one\ntwo\n")
    (inside / "recipe" / "lib.patch").write_text(
        "--- a\n+++ b\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"
    )
    step = {"targets": ["{root}/lib.py"], "diff": "lib.patch", "edits": [], "before": ["two"]}
    done = _apply(inside, do="patch", verify="TWO", **step)
    assert done.returncode == 0, done.stdout
    assert (inside / "lib.py").read_text() == "one\nTWO\n"
    again = _apply(inside, do="patch", verify="TWO", **step)
    assert again.returncode == 1
    assert "precondition not met" in again.stdout
    assert "mend: " in again.stdout


def test_a_target_that_is_not_there_stops(inside: Path) -> None:
    done = _apply(
        inside, do="patch", targets=["{root}/no.py"], diff=None, edits=[], before=["x"], verify="y"
    )
    assert done.returncode == 1
    assert "no.py is not there" in done.stdout


def test_a_link_goes_to_the_first_that_is_there(inside: Path) -> None:
    (inside / "libx.so.11").write_text("")
    for _ in range(2):  # again over itself: a rebuilt layer meets its own link
        done = _apply(
            inside, do="link", link="{root}/libx.so", to=["/no/libx.so.*", "{root}/libx.so.*"]
        )
        assert done.returncode == 0, done.stdout
    assert (inside / "libx.so").readlink() == inside / "libx.so.11"


def test_a_link_to_nothing_and_over_a_file_stops(inside: Path) -> None:
    assert _apply(inside, do="link", link="{root}/a", to=["/no/thing*"]).returncode == 1
    (inside / "a").write_text("precious")
    (inside / "b").write_text("")
    assert _apply(inside, do="link", link="{root}/a", to=["{root}/b"]).returncode == 1
    assert (inside / "a").read_text() == "precious"


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["sh", "-c", "exit 0"], 0, ""),
        (["sh", "-c", "exit 3"], 1, "sh ended with status 3"),
        (["sh", "-c", "false | cat"], 0, ""),  # a pipe in a shell is the recipe's own business
        (["no-such-program"], 1, "cannot be run"),
    ],
)
def test_the_status_of_a_program_decides(
    inside: Path, argv: list[str], status: int, said: str
) -> None:
    done = _apply(inside, do="run", argv=argv, env={}, **NEEDS)
    assert done.returncode == status
    assert said in done.stdout


def test_a_step_for_a_missing_module_is_skipped_aloud(inside: Path) -> None:
    for module, said in (("nothere.at.all", "skipped"), ("json.tool", "ran")):
        needs = {**NEEDS, "needs_module": module}
        done = _apply(inside, do="run", argv=["echo", "ran"], env={}, **needs)
        assert done.returncode == 0
        assert said in done.stdout


def test_a_wheel_that_is_missing_stops_with_its_name(inside: Path) -> None:
    (inside / "wheels").mkdir()
    (inside / "recipe" / "lock.txt").write_text("surely-not-there==1.0\n")
    done = _apply(
        inside, do="pip", requirements="lock.txt", source=None, deps=False, index_env=None
    )
    assert done.returncode != 0
    assert "surely-not-there==1.0" in done.stdout + done.stderr


def test_a_step_for_a_missing_program_is_skipped_aloud(inside: Path) -> None:
    for program, said in (("no-such-compiler", "skipped"), ("sh", "ran")):
        needs = {**NEEDS, "needs_program": program}
        done = _apply(inside, do="run", argv=["echo", "ran"], env={}, **needs)
        assert done.returncode == 0
        assert said in done.stdout


@pytest.mark.slow
def test_a_program_that_takes_too_long_stops(inside: Path) -> None:
    needs = {**NEEDS, "timeout_s": 1}
    done = _apply(inside, do="run", argv=["sleep", "30"], env={}, **needs)
    assert done.returncode == 1
    assert "took longer than 1 s" in done.stdout

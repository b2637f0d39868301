"""The kernels' own tests, run where the kernels run: in the engine's environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tuner.build import build_engine, extra_packages, load_recipe

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture
def own_folders() -> None:
    """The user's cache is wanted here: it holds the built engine."""


def test_the_kernels_tests_pass_in_the_engines_environment() -> None:
    recipe = load_recipe("cpu")
    engine = build_engine(recipe)
    extra = extra_packages(engine, recipe, "tests")
    done = subprocess.run(
        [
            str(engine.python),
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-c",
            "tests/engine/pytest.ini",
            "tests/engine",
        ],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(extra)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    # Where the recipe could compile, a missing kernel is a failure and no reason to skip its tests.
    assert "needs the compiled kernel" not in done.stdout or shutil.which("c++") is None

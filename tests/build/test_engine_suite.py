"""Runs the kernels' own tests (``tests/engine``) under the engine's interpreter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.build import build_engine, extra_packages, load_recipe
from tuner.build.process import build_env

SUITE = Path(__file__).resolve().parents[1] / "engine"


@pytest.fixture
def own_folders() -> None:
    """The user's cache is wanted here: it holds the built engine."""


@pytest.mark.engine
@pytest.mark.timeout(1800)
def test_the_kernels_pass_their_tests_inside_the_engine() -> None:
    recipe = load_recipe("cpu")
    engine = build_engine(recipe)
    extras = extra_packages(engine, recipe, "tests")
    done = subprocess.run(
        [engine.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", SUITE],
        cwd=SUITE,
        env=build_env({**dict(engine.env), "PYTHONPATH": str(extras)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout[-3000:])  # its own closing line belongs into the log of this run
    assert done.returncode == 0, done.stdout[-8000:]

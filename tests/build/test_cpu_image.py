"""The cpu recipe as an image, built from a wheelhouse without any network.

That it serves is shown by the study in tests/real/test_docker_study.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner import paths
from tuner.build import (
    Engine,
    build_engine,
    fill_wheelhouse,
    load_recipe,
    verify_engine,
)
from tuner.build.dockercli import docker

pytestmark = [
    pytest.mark.docker,
    pytest.mark.engine,
    pytest.mark.timeout(1800),
]


@pytest.fixture
def own_folders() -> None:
    """The user's cache is wanted here: it holds the wheels, the engine and the model."""


@pytest.fixture
def engine() -> Engine:
    recipe = load_recipe("cpu")
    cache = paths.cache_dir()
    wheels = cache / "wheels" / "cpu"
    fill_wheelhouse(recipe, wheels, cache=cache)
    return build_engine(recipe, launch="docker", wheelhouse=wheels)


def test_every_check_passes_inside_it(engine: Engine) -> None:
    results = verify_engine(engine, load_recipe("cpu"))
    assert [result for result in results if not result.ok] == []
    assert engine.fingerprint.vllm == "0.32.0"


def test_it_carries_no_wheels(engine: Engine) -> None:
    _, listing = docker("run", "--rm", str(engine.image), "ls", "/opt")
    assert listing.split() == [Path(str(engine.python)).parts[2]]

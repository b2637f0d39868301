"""A short study on the real engine in containers, with a memory limit that some of its points pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import containers
from tests.fakes.deployed import answers, asked, container_of
from tests.real.test_study import told
from tuner import paths
from tuner.build import build_engine, fill_wheelhouse, load_recipe
from tuner.launch import ports
from tuner.store.ledger import Ledger
from tuner.trial.deliver import export_files

SHIPPED = Path("search_spaces/local_cpu_docker.yaml")

pytestmark = [
    pytest.mark.engine,
    pytest.mark.docker,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("engines"),
]


@pytest.fixture
def own_folders() -> None:
    """The user's cache is wanted here: it holds the wheels, the image and the model."""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The state folder of a study that is over, and whose containers are gone."""
    recipe, wheels = load_recipe("cpu"), paths.cache_dir() / "wheels" / "cpu"
    fill_wheelhouse(recipe, wheels, cache=paths.cache_dir())
    build_engine(recipe, launch="docker", wheelhouse=wheels)
    with containers.none_left(tmp_path):
        run(tmp_path / "state", short(tmp_path))
        yield tmp_path / "state"


def short(folder: Path) -> Path:
    """The space that ships, without what only confirms its result."""
    text = SHIPPED.read_text(encoding="utf-8")
    for there, instead in (
        (
            "repeats: {baseline: 2, each: 1}",
            "repeats: {baseline: 1, each: 1}",
        ),
        ("finalists: {count: 1, rounds: 2}", "finalists: {count: 0}"),
        ("trials: 5", "trials: 3"),
        ("dir: deploy/{study}", f"dir: {folder / 'export'}"),
    ):
        assert text.count(there) == 1
        text = text.replace(there, instead)
    file = folder / "space.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def run(state: Path, space: Path) -> None:
    words = [sys.executable, "-m", "tuner", "--state", str(state), "run", "--foreground"]
    done = subprocess.run([*words, str(space)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def by(trials: list[Any], **params: Any) -> Any:
    return next(t for t in trials if params.items() <= t["params"].items())


def test_points_past_the_limit_teach_and_the_better_one_is_exported_and_served(state: Path) -> None:
    trials = told(state, "trials", "local-cpu-docker")
    assert [t["stage"] for t in trials] == ["told"] * len(trials)
    assert trials[0]["verdict"] == "healthy"
    assert trials[0]["feasible"]

    killed = by(trials, tp=2)
    assert killed["verdict"] == "host_oom"
    why = told(state, "show", "local-cpu-docker", str(killed["trial"]))
    assert why["constraints"]["memory"] > 0
    assert "the kernel's out-of-memory killer struck" in str(why["judgement"]["evidence"])
    assert by(trials, kv_space=8)["verdict"] == "kv_space_does_not_fit"
    better = by(trials, max_num_seqs=4, moe="native")
    assert better["feasible"]
    assert better["score"] > trials[0]["score"]

    number, port = better["trial"], ports.free_port()
    with Ledger(state, write=False) as ledger:
        files = export_files(ledger, ledger.study("local-cpu-docker"), number, "compose")
    folder = state.parent / "out"
    with container_of(files, folder, port, name="llm-local-cpu-docker") as read:
        assert answers(port, deadline=180)["usage"]["completion_tokens"] == 2
        log = read()
    measured = state / f"studies/local-cpu-docker/trials/{number:04}/attempt-1/engine.log"
    assert asked(log) == asked(measured.read_text(encoding="utf-8"))

"""Whole studies on the fake server in containers: the daemon, the kernel and the limits are the real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes import containers
from tests.fakes.deployed import answers, asked, container_of
from tests.fakes.fake_image import fake_image
from tests.fakes.world import World
from tests.trial.test_deliver import exported
from tests.trial.test_study import run
from tuner.errors import UserError
from tuner.export.formats import Form
from tuner.launch import ports
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.rows import TrialRow
from tuner.store.stages import Stage
from tuner.telemetry.watch import read_samples
from tuner.trial.entry import enter_study
from tuner.trial.events import Happening
from tuner.trial.session import work
from tuner.trial.wishes import Wishes

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("engines"),
    pytest.mark.timeout(180),
]

LIMIT_MIB = 1200
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with containers.none_left(tmp_path):
        yield


def world(folder: Path, **changes: Any) -> World:
    parameters = {
        "seqs": {"flag": "--max-num-seqs", "choices": [1, 2], "baseline": 1},
        "ballast": {"env": "FAKE_BALLAST_MIB", "choices": [0, 2 * LIMIT_MIB], "baseline": 0},
        "kv_space": {"env": "VLLM_CPU_KVCACHE_SPACE", "choices": [1, 64], "baseline": 1},
    }
    wanted = {
        "parameters": parameters,
        "memory": {"host": f"{LIMIT_MIB}MiB"},
        "budget": {"trials": 3},
        **changes,
    }
    # Slow enough for the ballast to be in place before the load is over.
    slow = {"FAKE_SPEED": "8"}
    return World(folder, wanted, recipe_env=slow, image=fake_image()).make()


def by(trials: list[TrialRow], **params: Any) -> TrialRow:
    return next(t for t in trials if params.items() <= t.params.items())


def test_points_that_pass_the_containers_limit_teach_and_the_others_are_measured(
    tmp_path: Path,
) -> None:
    first = [{"ballast": 2 * LIMIT_MIB}, {"kv_space": 64}, {"seqs": 2}]
    trials = run(world(tmp_path, first=first, budget={"trials": 3}))
    assert all(t.stage is Stage.TOLD for t in trials)
    assert trials[0].verdict == "healthy"
    watched = tmp_path / "state/studies/fake/trials/0000/attempt-1/telemetry.jsonl"
    trees = [sample.tree for sample in read_samples(watched) if sample.tree is not None]
    assert (
        max(tree.rss for tree in trees) > 10 * 2**20
    )  # the processes in the container are watched
    killed = by(trials, ballast=2 * LIMIT_MIB)
    assert killed.verdict == "host_oom"
    assert killed.launched
    assert killed.constraints is not None
    assert killed.constraints["memory"] > 0
    rejected = by(trials, kv_space=64)
    assert rejected.verdict == "kv_space_does_not_fit"
    assert not rejected.launched  # what the container would see is less than is asked for
    assert by(trials, seqs=2, ballast=0).feasible


def test_the_log_of_each_attempt_lies_in_its_folder(tmp_path: Path) -> None:
    made = world(tmp_path, budget={"trials": 1})
    run(made)
    log = made.state / "studies" / "fake" / "trials" / "0000" / "attempt-1" / "engine.log"
    text = log.read_text()
    assert "non-default args" in text
    assert "'model': '/model'" in text
    assert "shutdown triggered" in text


@pytest.mark.parametrize("form", ["compose", "shell"])
def test_an_exported_container_serves_what_was_measured(tmp_path: Path, form: Form) -> None:
    made = world(tmp_path / "world", budget={"trials": 1})
    run(made)
    port = ports.free_port()
    with container_of(exported(made, form), tmp_path / "world", port, name="llm-fake") as read:
        assert answers(port)["usage"]["completion_tokens"] == 2
        log = read()
    measured = made.state / "studies/fake/trials/0000/attempt-1/engine.log"
    assert asked(log) == asked(measured.read_text())


def test_an_image_may_have_another_name_where_it_is_deployed(tmp_path: Path) -> None:
    made = world(tmp_path, budget={"trials": 1})
    run(made)
    elsewhere = "registry.example:5000/llm/fake@sha256:" + "a" * 64
    for form in ("kubernetes", "compose", "shell", "systemd"):
        assert elsewhere in str(exported(made, form, image=elsewhere))
    # An image that was there is known by its identity, which no cluster can pull.
    assert "sha256:" in str(exported(made, "compose"))
    with pytest.raises(UserError, match="no name"):
        exported(made, "kubernetes")


_RUN = """
import sys
from pathlib import Path
from tests.fakes.world import World
from tests.trial.test_study import run
run(World(Path(sys.argv[1]), image="x"))
"""


@pytest.mark.parametrize("stage", [Stage.STARTING, Stage.READY])
def test_a_tuner_that_was_killed_goes_on_and_leaves_no_container(
    tmp_path: Path, stage: Stage
) -> None:
    made = world(tmp_path, budget={"trials": 2}, first=[{"seqs": 2}])
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen([sys.executable, "-c", _RUN, str(tmp_path)], env=env)
    deadline = time.monotonic() + 60
    while not _reached(made, stage):
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if stage is Stage.STARTING:
        while not containers.of(tmp_path):
            time.sleep(0.02)
    running.kill()
    assert running.wait() == -signal.SIGKILL
    assert len(containers.of(tmp_path)) == 1
    trials = run(made)
    assert [t.verdict for t in trials] == ["healthy", "healthy"]
    assert trials[0].attempt == 2


def _reached(made: World, stage: Stage) -> bool:
    if not made.state.exists():
        return False
    try:
        with Ledger(made.state, write=False) as ledger:
            steps = ledger.transitions(ledger.study("fake").id)
            return any(step.stage is stage for step in steps)
    except Exception:  # noqa: BLE001 - the ledger is not there yet
        return False


def other_image(speed: int) -> str:
    """The fake's image with another speed: the same server, and still another engine."""
    name = f"{fake_image()}-speed{speed}"
    lines = f"FROM {fake_image()}\nENV FAKE_SPEED={speed}\n"
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    subprocess.run(
        ["docker", "build", "--quiet", "--network", "none", "--tag", name, "-"],
        input=lines, text=True, env=env, check=True, capture_output=True,
    )  # fmt: skip
    return name


def test_an_image_is_a_parameter_and_each_trial_runs_on_its_own(tmp_path: Path) -> None:
    slow, fast = other_image(1), other_image(20)
    parameters = {"image": {"setting": "image", "choices": [slow, fast], "baseline": slow}}
    made = World(
        tmp_path,
        {"parameters": parameters, "first": [{"image": fast}], "budget": {"trials": 2}},
        recipe_env={"FAKE_SPEED": ""},
        image=fake_image(),
    ).make()
    known: list[list[str]] = []

    def hear(what: Happening) -> None:
        if what.kind == "plan":
            known.append(list(ledger.study("fake").facts["engines"]))

    with Ledger(made.state, write=True) as ledger:
        row = enter_study(ledger, load_space(made.space), made.space)
        work(ledger, row, watchers=[hear], wishes=Wishes())
        trials = ledger.trials(row.id)
        engines = ledger.study("fake").facts["engines"]
        started = [s.detail["engine"] for s in ledger.transitions(row.id) if "engine" in s.detail]
    assert [(t.params["image"], t.verdict) for t in trials] == [
        (slow, "healthy"),
        (fast, "healthy"),
    ]
    assert (trials[1].score or 0) > (trials[0].score or 0)
    names = [f"{tmp_path / 'recipe'} on {image}" for image in (slow, fast)]
    assert known == [names, names]  # all were there before the first trial was planned
    assert started == [engines[name]["digest"] for name in names]
    assert len(set(started)) == 2
    for trial, image, name in zip(trials, (slow, fast), names, strict=True):
        files = exported(made, "compose", trial.number)
        (service,) = yaml.safe_load(files.pop("compose.yaml"))["services"].values()
        engine = engines[name]
        assert service["image"] == engine["image"] == engine["fingerprint"]["image"]
        (said,) = (json.loads(text)["engine"] for text in files.values() if '"engine"' in text)
        assert said["image"] == {"chosen": image, "is": engine["image"]}
        assert said["digest"] == engine["digest"]

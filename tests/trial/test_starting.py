from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.build.test_kernels import engine
from tests.trial.factory import trial
from tuner.build.recipe import Container
from tuner.spec.deployment import Deployment
from tuner.telemetry.samples import DeviceInfo
from tuner.trial import starting
from tuner.trial.context import Study
from tuner.trial.runner import TrialRunner
from tuner.trial.starting import launch_environment

ASKED = Deployment("cuda", "/m", "docker", (), (("CUDA_VISIBLE_DEVICES", "0"), ("OTHER", "x")), "m")
LENT = {"CUDA_VISIBLE_DEVICES": "GPU-3", "NVIDIA_VISIBLE_DEVICES": "GPU-3"}

HOST_NEEDS = SimpleNamespace(
    env=(), mounts=(), devices=(), gpus=False, shm=2**20, user="image", capabilities=()
)


@pytest.mark.parametrize("image", [None, "vllm:1"])
def test_the_lent_devices_win_over_those_that_a_space_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str | None
) -> None:
    monkeypatch.setattr(starting, "host_needs", lambda _: SimpleNamespace(env=()))
    own = engine(tmp_path, image=image)
    study = cast("Study", SimpleNamespace(device_env=LENT))
    env = launch_environment(study, own, ASKED)
    assert {name: env[name] for name in LENT} == LENT
    assert env["OTHER"] == "x"
    free = cast("Study", SimpleNamespace(device_env={}))
    assert launch_environment(free, own, ASKED)["CUDA_VISIBLE_DEVICES"] == "0"


def test_the_lent_devices_are_those_that_are_looked_after(tmp_path: Path) -> None:
    cards = tuple(DeviceInfo(n, f"GPU-{n}", None, "Card", 1) for n in (3,))
    own = replace(engine(tmp_path), container=Container(gpus="all"))
    study: Any = SimpleNamespace(
        engines={"cuda": own}, device_env=LENT, hardware=SimpleNamespace(devices=cards)
    )
    runner = TrialRunner.__new__(TrialRunner)
    runner._study = study
    found = runner._devices(trial(1, deployment=ASKED.as_json()))
    assert found == cards


def test_the_engine_of_the_chosen_image_is_asked_and_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "host_needs", lambda _: HOST_NEEDS)
    own = engine(tmp_path)
    engines = {f"cuda on {name}": replace(own, image=f"sha256:{name}") for name in ("a", "b")}
    (tmp_path / "study").mkdir()
    study: Any = SimpleNamespace(
        engines=engines,
        models={"/m": tmp_path},
        device_env={},
        folder=tmp_path / "study",
        space=SimpleNamespace(files={}),
    )
    for image in ("a", "b"):
        asked = Deployment("cuda", "/m", "docker", (), (), "m", image=image)
        words = starting.preflight(study, asked)._argv
        plan = starting.container_plan(engines[asked.engine], tmp_path, asked)
        assert f"sha256:{image}" in words
        assert plan is not None
        assert plan.image == f"sha256:{image}"

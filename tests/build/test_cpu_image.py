"""The cpu recipe as an image, built from a wheelhouse without any network, and serving."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tuner import paths
from tuner.build import (
    Engine,
    build_engine,
    fill_wheelhouse,
    load_recipe,
    make_model,
    verify_engine,
)
from tuner.build.dockercli import container_words, docker

pytestmark = [
    pytest.mark.docker,
    pytest.mark.engine,
    pytest.mark.timeout(1800),
]
EVERYWHERE = "0.0.0.0"  # noqa: S104 - inside the container; it is published on the loopback only


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


@pytest.fixture
def container(engine: Engine) -> Iterator[str]:
    model = make_model(engine, "tiny-hybrid")
    assert engine.image is not None
    status, said = docker(
        "run", "--detach", "--init", "--publish", "127.0.0.1::8000", *container_words(engine.container),
        "--volume", f"{model}:/model:ro", "--env", "VLLM_CPU_KVCACHE_SPACE=1",
        engine.image, *engine.server, "--model", "/model", "--served-model-name", "llm",
        "--host", EVERYWHERE, "--max-model-len", "2048", "--max-num-seqs", "2", "--enforce-eager",
        merged=True,
    )  # fmt: skip
    assert status == 0, said
    yield said.split()[-1]
    docker("rm", "--force", said.split()[-1])


def test_every_check_passes_inside_it(engine: Engine) -> None:
    results = verify_engine(engine, load_recipe("cpu"))
    assert [result for result in results if not result.ok] == []
    assert engine.fingerprint.vllm == "0.32.0"


def test_it_carries_no_wheels(engine: Engine) -> None:
    _, listing = docker("run", "--rm", str(engine.image), "ls", "/opt")
    assert listing.split() == [Path(str(engine.python)).parts[2]]


def test_it_serves(container: str) -> None:
    _, port = docker("port", container, "8000/tcp")
    ask = {"model": "llm", "prompt": "a", "max_tokens": 4, "temperature": 0}
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            answer = httpx.post(f"http://{port.split()[0]}/v1/completions", json=ask, timeout=60)
        except httpx.TransportError:
            _, running = docker("inspect", "--format", "{{.State.Running}}", container)
            assert running.strip() == "true", docker("logs", container, merged=True)[1][-3000:]
            time.sleep(0.5)
            continue
        assert answer.status_code == 200
        assert len(answer.json()["choices"][0]["text"]) == 4
        return
    pytest.fail(docker("logs", container, merged=True)[1][-3000:])

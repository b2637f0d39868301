"""The real recipe, built for real (or found in the user's cache)."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tuner import paths
from tuner.build import Engine, build_engine, load_recipe, make_model, verify_engine
from tuner.build.process import build_env

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture
def own_folders() -> None:
    """The user's cache is wanted here: it holds the built engine."""


@pytest.fixture(scope="module")
def engine() -> Engine:
    return build_engine("cpu")


def test_every_check_passes_inside_it(engine: Engine) -> None:
    results = verify_engine(engine, load_recipe("cpu"))
    assert [result for result in results if not result.ok] == []
    assert engine.fingerprint.vllm == "0.32.0"
    assert (engine.fingerprint.torch or "").startswith("2.13.0")


def test_the_tiny_model_is_the_same_bytes_for_a_seed(engine: Engine, tmp_path: Path) -> None:
    maker = paths.data_dir() / "engine" / "models" / "tiny_hybrid.py"

    def make(name: str, seed: int) -> dict[str, str]:
        out = tmp_path / name
        subprocess.run(
            [engine.python, maker, out, f"--seed={seed}"],
            env=build_env(dict(engine.env)),
            check=True,
        )
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(out.iterdir())
        }

    first, again, other = make("first", 0), make("again", 0), make("other", 1)
    assert first == again
    assert {name for name in first if first[name] != other[name]} == {"model.safetensors"}
    assert {"config.json", "tokenizer.json", "chat_template.jinja"} <= set(first)


def test_a_made_model_is_kept(engine: Engine) -> None:
    model = make_model(engine, "tiny-hybrid")
    assert make_model(engine, "tiny-hybrid") == model
    assert sum(path.stat().st_size for path in model.iterdir()) > 25e6

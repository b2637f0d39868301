"""A study on the fake server: its recipe, its model of nothing but heads, its search space."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import FAKE
from tests.memory.checkpoints import config, tensors, write


def write_recipe(folder: Path, *, env: dict[str, str] | None = None) -> Path:
    """A recipe whose engine is the fake server, run by the tests' own interpreter."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = {
        "format": 1,
        "name": "fake",
        "about": "the fake server of the tests",
        "base": {"existing": {"python": sys.executable}},
        "server": ["{python}", str(FAKE)],
        "env": {"FAKE_SPEED": "20", **(env or {})},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return folder


def write_model(folder: Path) -> Path:
    """A small model: a config and the heads of its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = config("llama_tiny")
    (folder / "config.json").write_text(json.dumps(facts), encoding="utf-8")
    write(folder / "model.safetensors", tensors(facts))
    return folder


def write_space(folder: Path, *, study: str = "fake", **changes: Any) -> Path:
    """A search space on the fake server, with its recipe and its model beside it.

    Args:
        folder: Where everything goes.
        study: The study's name.
        **changes: Sections of the space in place of the ones here.
    """
    recipe = write_recipe(folder / "recipe")
    model = write_model(folder / "model")
    space: dict[str, Any] = {
        "version": 1,
        "study": study,
        "seed": 1,
        "engine": {
            "recipe": str(recipe),
            "model": {"path": str(model)},
            "flags": {"--max-model-len": 4096},
            "deadlines": {"start": "20s", "silence": "10s", "stop": "10s"},
        },
        "parameters": {
            "max_num_seqs": {"flag": "--max-num-seqs", "choices": [1, 2, 4, 8], "baseline": 1},
            "kv_space": {
                "env": "VLLM_CPU_KVCACHE_SPACE",
                "choices": [1, 64],
                "baseline": 1,
                "unit": "GiB",
            },
        },
        "search": {"sampler": "tpe", "startup": 2, "finalists": {"count": 1, "rounds": 1}},
        "budget": {"trials": 3},
        "workload": {
            "kind": "conversations",
            "conversations": 2,
            "turns": 2,
            "concurrency": 2,
            "system_tokens": 50,
            "turn_tokens": {"min": 20, "max": 60},
            "output_tokens": 4,
            "request_timeout": "10s",
            "time_limit": "30s",
            "warmup": {"conversations": 1},
        },
        "score": {
            "gates": {
                "success_rate": 1.0,
                "cache_hit_rate": "off",
                "ttft_p90_s": "off",
                "output_tps_p10": "off",
                "weighted": "off",
            }
        },
        "export": {"dir": str(folder / "export")},
    }
    file = folder / f"{study}.yaml"
    file.write_text(yaml.safe_dump({**space, **changes}, sort_keys=False), encoding="utf-8")
    return file

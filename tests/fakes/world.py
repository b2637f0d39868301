"""A whole study on the fake server: a recipe, a model and a search space, written into a folder.

The recipe is of the kind that takes an engine as it is there, with tests' own interpreter as the
engine and the fake as its server; so everything above the engine's process is the real thing.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import FAKE
from tests.fakes import fake_image
from tests.memory.checkpoints import config, tensors, write

MODEL = "llama_tiny"
_RECIPE = {
    "format": 1,
    "name": "fake",
    "about": "the fake server of the tests",
    "base": {"existing": {}},
    "server": ["{python}", str(FAKE)],
    "env": {"FAKE_SPEED": "50", "FAKE_FORK": "1"},
    "knows": {"env": ["FAKE*", "VLLM_*", "ENGINEX_*"]},
}
WORKLOAD: dict[str, Any] = {
    "kind": "conversations",
    "conversations": 2,
    "turns": 2,
    "concurrency": 2,
    "system_tokens": 64,
    "turn_tokens": {"min": 20, "max": 60},
    "output_tokens": 4,
    "request_timeout": "10s",
    "time_limit": "20s",
    "warmup": {"conversations": 1},
}
ENGINE: dict[str, Any] = {
    "recipe": "recipe",
    "model": {"path": "model"},
    "flags": {"--max-model-len": 2048, "--enable-prompt-tokens-details": True},
    "deadlines": {"start": "30s", "silence": "15s", "stop": "5s"},
}
_SPACE: dict[str, Any] = {
    "version": 1,
    "study": "fake",
    "seed": 5,
    "engine": ENGINE,
    "parameters": {
        "seqs": {"flag": "--max-num-seqs", "choices": [1, 2, 4, 8], "baseline": 1},
        "batch": {
            "flag": "--max-num-batched-tokens",
            "choices": [512, 2048, 4096],
            "baseline": 512,
        },
        "kv_space": {"env": "VLLM_CPU_KVCACHE_SPACE", "choices": [1, 2, 64], "baseline": 1},
        "moe": {"env": "ENGINEX_MOE_TINY_IMPL", "choices": ["native", "loop"], "baseline": "loop"},
    },
    "search": {"startup": 1, "finalists": {"count": 0}},
    "budget": {"trials": 2},
    "workload": WORKLOAD,
    "quality": {"suite": "off", "answers": {"match": "off"}},  # for the tests that are about it
    "score": {
        "gates": {
            "success_rate": 1.0,
            "cache_hit_rate": "off",
            "ttft_p90_s": "off",
            "output_tps_p10": "off",
            "weighted": "off",
        }
    },
    "export": {"dir": "export"},
}


@dataclass(frozen=True, slots=True)
class World:
    """A folder with all that a study on the fake needs.

    Attributes:
        folder: The folder.
        changes: What the search space says otherwise, by its own keys; None takes a key away.
        fake: Switches of the fake, for every trial.
        recipe_env: More variables that the recipe gives its server.
        container: What the recipe says of its container, and so whether it runs on devices.
        image: The fake's image, for a study in containers.
    """

    folder: Path
    changes: dict[str, Any] = field(default_factory=dict)
    fake: tuple[str, ...] = ()
    recipe_env: dict[str, str] = field(default_factory=dict)
    container: dict[str, Any] = field(default_factory=dict)
    image: str | None = None

    @property
    def space(self) -> Path:
        """The search space's file."""
        return self.folder / "space.yaml"

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / "state"

    def make(self) -> World:
        """Write everything."""
        recipe = self.folder / "recipe"
        model = self.folder / "model"
        for place in (recipe, model):
            place.mkdir(parents=True, exist_ok=True)
        env = {**_RECIPE["env"], **self.recipe_env, "FAKE": ",".join(self.fake)}  # type: ignore[dict-item]
        env = {name: value for name, value in env.items() if value}
        spec = {**_RECIPE, "env": env, "container": self.container, **self._base()}
        (recipe / "recipe.yaml").write_text(json.dumps(spec))
        known = config(MODEL)
        (model / "config.json").write_text(json.dumps(known))
        write(model / "model.safetensors", tensors(known))
        self.write_space()
        return self

    def _base(self) -> dict[str, Any]:
        if self.image is None:
            return {}
        return {
            "base": {"existing": {"image": self.image}},
            "server": ["{python}", *fake_image.SERVER[1:]],
        }

    def write_space(self, **more: Any) -> None:
        """Write the search space, with some more changes."""
        space = {**_SPACE, **self.changes, **more}
        # Repeats before the finalists are for the tests that are about them.
        space["search"] = {"repeats": {"baseline": 1, "each": 1}, **space["search"]}
        launch = "process" if self.image is None else "docker"
        recipe = str(self.folder / "recipe")
        space["engine"] = {**space["engine"], "recipe": recipe, "launch": launch}
        text = yaml.safe_dump({k: v for k, v in space.items() if v is not None}, sort_keys=False)
        self.space.write_text(text)

    def copy_to(self, folder: Path) -> World:
        """The same world elsewhere, its state included."""
        shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)

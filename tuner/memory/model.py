"""A model as memory sees it: its config and the heads of its weights, never the weights."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.memory.config import ModelConfig, read_config
from tuner.memory.headers import Tensor, read_headers
from tuner.memory.tensors import Group, TensorKind, group_tensors

__all__ = ["ModelFacts", "find_model", "make_facts", "read_model"]

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model.

    Attributes:
        config: What its config says.
        groups: Its tensors, summed up; empty where the weights are not there to be read.
        checkpoint_bytes: Bytes of all tensors in the files.
    """

    config: ModelConfig
    groups: tuple[Group, ...]
    checkpoint_bytes: int

    @property
    def weights_known(self) -> bool:
        """Whether the heads of the weights could be read."""
        return bool(self.groups)

    def bytes_by_kind(self, *, element: int = 2) -> dict[TensorKind, int]:
        """Bytes of all tensors of each kind, over all ranks.

        Args:
            element: Bytes of one element of the model's type.
        """
        found: dict[TensorKind, int] = {}
        for group in self.groups:
            size = group.floats * element + group.fixed
            found[group.kind] = found.get(group.kind, 0) + size
        return found


def make_facts(config: ModelConfig, tensors: tuple[Tensor, ...]) -> ModelFacts:
    """The facts of a model whose config and heads were read."""
    return ModelFacts(
        config=config,
        groups=group_tensors(tensors, len(config.layers)),
        checkpoint_bytes=sum(tensor.size for tensor in tensors),
    )


def read_model(folder: Path, *, mla: bool = True) -> ModelFacts:
    """Read a model folder: ``config.json`` and the heads of the safetensors files.

    Args:
        folder: The model's folder.
        mla: Whether latent attention is used where the model has it.

    Raises:
        ModelUnreadable: When the config is missing or damaged, or a weight file is damaged. Weights
            that are absent altogether are no error: then they count as nothing.
    """
    return make_facts(read_config(folder, mla=mla), read_headers(folder))


def find_model(model: str, env: Mapping[str, str] | None = None) -> Path | None:
    """The folder of a model on this machine: a path, or a hub's name in the local cache.

    Args:
        model: What the deployment names.
        env: The engine's environment, which may move the cache; this process's when None.

    Returns:
        The folder, or None when the model is not here. Nothing is downloaded.
    """
    path = Path(model).expanduser()
    if (path / "config.json").is_file():
        return path
    if not _HUB_NAME.fullmatch(model):
        return None
    env = os.environ if env is None else env
    home = Path(env.get("HF_HOME") or Path.home() / ".cache" / "huggingface").expanduser()
    cache = Path(env.get("HF_HUB_CACHE") or home / "hub").expanduser()
    root = cache / f"models--{model.replace('/', '--')}"
    try:
        revision = (root / "refs" / "main").read_text().strip()
    except OSError:
        return None
    found = root / "snapshots" / revision
    if not re.fullmatch(r"[0-9a-f]{6,64}", revision) or not (found / "config.json").is_file():
        return None
    return found

"""What is measured: the shape of a layer of routed experts, given or read from a model's configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginex.errors import EnginexError

__all__ = ["BadShape", "Shape", "from_model", "parse"]

_DTYPES = {"bf16": 2, "fp16": 2, "fp32": 4}
_LONG = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class BadShape(EnginexError):
    """A shape or a model's configuration that cannot be measured."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One layer of routed experts on one rank.

    Attributes:
        experts: E.
        hidden: H.
        inter: I on this rank.
        topk: k.
        dtype: ``bf16``, ``fp16`` or ``fp32``.
        layers: How many such layers the model has; None measures with weights larger than the caches.
    """

    experts: int
    hidden: int
    inter: int
    topk: int
    dtype: str = "bf16"
    layers: int | None = None

    @property
    def expert_bytes(self) -> int:
        """Bytes of one expert's weights."""
        return 3 * self.hidden * self.inter * _DTYPES[self.dtype]

    def check(self) -> Shape:
        """Return the shape itself.

        Raises:
            BadShape: It is not one of a layer of routed experts.
        """
        if min(self.experts, self.hidden, self.inter, self.topk) < 1 or self.topk > self.experts:
            raise BadShape(f"{self} is no layer of routed experts")
        if self.dtype not in _DTYPES:
            raise BadShape(f"dtype {self.dtype!r} is not one of {', '.join(_DTYPES)}")
        return self


def parse(text: str) -> Shape:
    """Read ``E,H,I,k`` or ``E,H,I,k,dtype``.

    Raises:
        BadShape: It is neither.
    """
    parts = text.split(",")
    try:
        experts, hidden, inter, topk = (int(part) for part in parts[:4])
    except ValueError as error:
        raise BadShape(
            f"{text!r} is not E,H,I,k or E,H,I,k,dtype, such as 256,2048,512,8,bf16"
        ) from error
    if len(parts) > 5:
        raise BadShape(f"{text!r} has more than five parts")
    return Shape(experts, hidden, inter, topk, parts[4] if len(parts) == 5 else "bf16").check()


def from_model(folder: Path, ranks: int = 1) -> Shape:
    """Read the shape of the routed experts from a model's ``config.json``.

    Args:
        folder: The model.
        ranks: Tensor-parallel ranks among which the experts' inner width is divided.

    Raises:
        BadShape: There is no such file, or the model has no routed experts that we know.
    """
    path = folder / "config.json"
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadShape(f"{path} cannot be read: {error}") from error
    config = config.get("text_config", config) if isinstance(config, dict) else {}
    try:
        inter = int(config["moe_intermediate_size"])
        experts = int(
            config["num_experts"] if "num_experts" in config else config["n_routed_experts"]
        )
        topk, hidden = int(config["num_experts_per_tok"]), int(config["hidden_size"])
        layers = int(config["num_hidden_layers"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadShape(f"{path} does not describe routed experts: {error}") from error
    if inter % ranks:
        raise BadShape(f"an inner width of {inter} cannot be divided among {ranks} ranks")
    dtype = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
    return Shape(experts, hidden, inter // ranks, topk, _LONG.get(dtype, dtype), layers).check()

"""Which modules of a model are which, and how to see their calls without being in the way when nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

__all__ = [
    "ATTENTION",
    "GDN",
    "LOGITS",
    "MLP",
    "NORMS",
    "ROUTER",
    "SHARED",
    "blocks",
    "cover",
    "stage_of",
]

ATTENTION, GDN, LOGITS, MLP, NORMS, ROUTER, SHARED = (
    "attention",
    "gdn",
    "logits",
    "mlp",
    "norms",
    "router",
    "shared_expert",
)

_NAMES = {
    "self_attn": ATTENTION,
    "attn": ATTENTION,
    "attention": ATTENTION,
    "linear_attn": GDN,
    "mlp": MLP,
    "feed_forward": MLP,
    "block_sparse_moe": MLP,
    "logits_processor": LOGITS,
    "gate": ROUTER,
    "router": ROUTER,
    "shared_expert": SHARED,
    "shared_experts": SHARED,
}
_NORM_NAMES = ("norm", "layernorm", "ln_1", "ln_2", "ln_f")
_INSIDE = (ATTENTION, GDN, SHARED, ROUTER)
"""Stages whose own submodules are not stages of their own, such as the norms of q and k."""


def stage_of(path: str) -> str | None:
    """Name the stage that a module belongs to by its path, or None where it is none or lies inside of one."""
    parts = path.split(".")
    for part in parts[:-1]:
        if _NAMES.get(part) in _INSIDE:
            return None
    last = parts[-1]
    if last in _NAMES:
        return _NAMES[last]
    return NORMS if last.endswith(_NORM_NAMES) else None


def blocks(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """List the attention, GatedDeltaNet and MLP (or MoE) blocks of a model's layers, each with its path."""
    return [
        (path, module) for path, module in _stages(model) if stage_of(path) in {ATTENTION, GDN, MLP}
    ]


def _stages(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for path, module in model.named_modules():
        if path and stage_of(path) is not None:
            yield path, module


def cover(module: nn.Module, wrapper: Callable[..., Any]) -> Callable[[], None]:
    """Let calls of a module go to ``wrapper(forward, *args, **kwargs)``.

    The wrapper stands in the module's own dictionary, where Python finds it before the class's method. A module that
    is not covered costs nothing.

    Returns:
        A function that undoes it; covers are undone in the reverse of their order.
    """
    inner = module.forward
    before = module.__dict__.get("forward")

    def forward(*args: Any, **kwargs: Any) -> Any:
        return wrapper(inner, *args, **kwargs)

    def undo() -> None:
        if before is None:
            module.__dict__.pop("forward", None)
        else:
            module.__dict__["forward"] = before

    module.__dict__["forward"] = forward
    return undo

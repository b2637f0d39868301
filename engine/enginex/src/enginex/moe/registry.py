"""Variants by name."""

from __future__ import annotations

from enginex.moe import torch_variants
from enginex.moe.contract import Variant

__all__ = ["get"]

_VARIANTS: dict[str, Variant] = {
    "loop": torch_variants.loop,
    "tokenwise": torch_variants.tokenwise,
    "bmm": torch_variants.bmm,
}


def get(name: str) -> Variant:
    """Return a variant of ours.

    Raises:
        KeyError: No variant has that name; ``native`` is the engine's and not ours.
    """
    return _VARIANTS[name]

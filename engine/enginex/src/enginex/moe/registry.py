"""Variants by name."""

from __future__ import annotations

from enginex.moe import torch_variants
from enginex.moe.compiled import compiled
from enginex.moe.contract import Variant
from enginex.moe.names import COMPILED

__all__ = ["get"]

_VARIANTS: dict[str, Variant] = {
    "loop": torch_variants.loop,
    "tokenwise": torch_variants.tokenwise,
    "bmm": torch_variants.bmm,
    "direct": torch_variants.direct,
    "grouped": torch_variants.grouped,
    COMPILED: compiled,
}


def get(name: str) -> Variant:
    """Return a variant of ours.

    Raises:
        KeyError: No variant has that name; ``native`` is the engine's and ``auto`` a choice among the others.
    """
    return _VARIANTS[name]

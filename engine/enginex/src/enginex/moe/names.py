"""The names of the variants, readable without torch."""

from __future__ import annotations

__all__ = ["NATIVE", "TORCH_VARIANTS", "VARIANTS"]

NATIVE = "native"
"""The engine's own kernel: nothing of ours runs."""

TORCH_VARIANTS = ("loop", "tokenwise", "bmm")
"""Variants made of plain torch operations, which run wherever torch does."""

VARIANTS = (NATIVE, *TORCH_VARIANTS)
"""All values of ``ENGINEX_MOE_TINY_IMPL``."""

"""The names of the variants, readable without torch."""

from __future__ import annotations

__all__ = ["AUTO", "COMPILED", "NATIVE", "TORCH_VARIANTS", "VARIANTS"]

NATIVE = "native"
"""The engine's own kernel: nothing of ours runs."""

TORCH_VARIANTS = ("loop", "tokenwise", "bmm", "direct", "grouped")
"""Variants made of plain torch operations, which run wherever torch does."""

COMPILED = "compiled"
"""Our C++ kernel, where it was built."""

AUTO = "auto"
"""For each number of tokens what a policy file names."""

VARIANTS = (NATIVE, *TORCH_VARIANTS, COMPILED, AUTO)
"""All values of ``ENGINEX_MOE_TINY_IMPL``."""

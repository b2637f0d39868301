"""The variant that is written in C++."""

from __future__ import annotations

from torch import Tensor

from enginex.moe.contract import PLAIN, Form
from enginex.native import library

__all__ = ["compiled"]


def compiled(
    hidden: Tensor,
    w13: Tensor,
    w2: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    form: Form = PLAIN,
) -> Tensor:
    """Read each chosen expert once, however many tokens chose it, at the speed of memory.

    Raises:
        NotBuilt: The library was not built.
    """
    return library.load().moe(
        library.Experts.of_rows(w13, w2, form), hidden, topk_weights, topk_ids
    )

"""Packing as vLLM does it, written anew so that the tests do not need vLLM."""

from __future__ import annotations

from torch import Tensor

from enginex.native.library import Layout


def pack(weight: Tensor, layout: Layout) -> Tensor:
    """Lay [E, N, K] out as ``kernel.h`` says."""
    experts, rows, columns = weight.shape
    if layout == Layout.ROWS:
        return weight.contiguous()
    if layout == Layout.LANES:
        return weight.view(experts, rows // 16, 16, columns).transpose(2, 3).contiguous()
    blocks = weight.view(experts, rows // 16, 16, columns // 2, 2)
    return blocks.permute(0, 1, 3, 2, 4).contiguous()

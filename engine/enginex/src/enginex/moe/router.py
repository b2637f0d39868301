"""From router logits to the chosen experts and their weights, in two forms that give the same.

With p = softmax(l) over all E experts and S the k largest, the first form gives p_i / Σ_{j∈S} p_j. As
p_i = e^{l_i} / Z for one Z, Z cancels, and what is left is softmax over the k largest logits: the second form. softmax
is monotone, so both choose the same experts. The first computes E exponentials a token, the second k. Without
renormalization the weights are p_i themselves, which needs Z, and there is only the first form.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["softmax_topk", "topk_softmax"]


def softmax_topk(logits: Tensor, topk: int, *, renormalize: bool = True) -> tuple[Tensor, Tensor]:
    """Softmax over all experts, then the k largest, then (if asked) weights that sum to 1.

    Args:
        logits: [T, E], any floating dtype; computed in fp32.
        topk: k.
        renormalize: Divide the weights by their sum.

    Returns:
        Weights [T, k] in fp32, descending, and expert numbers [T, k] in int64.
    """
    weights, ids = torch.topk(torch.softmax(logits.float(), dim=-1), topk, dim=-1)
    if renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, ids


def topk_softmax(logits: Tensor, topk: int) -> tuple[Tensor, Tensor]:
    """Take the k largest logits, then softmax over them: equal to :func:`softmax_topk`, renormalized.

    Args:
        logits: [T, E], any floating dtype; computed in fp32.
        topk: k.

    Returns:
        Weights [T, k] in fp32, descending, and expert numbers [T, k] in int64.
    """
    largest, ids = torch.topk(logits.float(), topk, dim=-1)
    return torch.softmax(largest, dim=-1), ids

"""The gated delta rule for one token of each of several sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from enginex.gdn.contract import default_scale, expand, unit

__all__ = ["decode"]


def decode(  # noqa: PLR0913 - the tensors of the contract
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    states: Tensor,
    slots: Tensor | None = None,
    *,
    scale: float | None = None,
    normalize: bool = True,
) -> Tensor:
    """Take one step in each of B sequences, and write their new states in place.

    Args:
        q: [B, Hk, dk], any floating dtype.
        k: [B, Hk, dk].
        v: [B, Hv, dv].
        g: [B, Hv].
        beta: [B, Hv].
        states: [B, Hv, dk, dv] in fp32, or a pool of more where ``slots`` is given.
        slots: The sequences' places in the pool, [B], all different.
        scale: 1/√dk when None.
        normalize: Bring q and k to length 1 first.

    Returns:
        [B, Hv, dv] in the dtype of v.
    """
    heads, width = v.shape[1], q.shape[2]
    scale = default_scale(width) if scale is None else scale
    q, k = ((unit(x) if normalize else x.float()) for x in (q, k))
    q, k = expand(q, heads).unsqueeze(-2), expand(k, heads).unsqueeze(-2)
    now = states if slots is None else states.index_select(0, slots)
    kept = g.float().exp()[..., None, None] * now
    new = beta.float()[..., None, None] * (v.float().unsqueeze(-2) - k @ kept)
    now = torch.addcmul(kept, k.mT, new)
    if slots is None:
        states.copy_(now)
    else:
        states.index_copy_(0, slots.long(), now)
    return (scale * (q @ now)).squeeze(-2).to(v.dtype)

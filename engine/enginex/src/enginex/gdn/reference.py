"""The gated delta rule step by step in float64, and how far from it the other forms may lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from enginex.gdn.contract import default_scale, expand

__all__ = ["Exact", "error_bound", "reference"]

_FP32 = 2.0**-24


@dataclass(frozen=True, slots=True)
class Exact:
    """The exact result.

    Attributes:
        out: [T, Hv, dv] in float64.
        state: [Hv, dk, dv] in float64.
        size: The largest ‖S‖ + ‖v‖ (2-norms, S as a vector) that any step met, by head: [Hv].
    """

    out: Tensor
    state: Tensor
    size: Tensor


def reference(  # noqa: PLR0913 - the tensors of the contract
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor | None = None,
    *,
    scale: float | None = None,
    normalize: bool = True,
) -> Exact:
    """Compute the rule as :mod:`enginex.gdn.contract` writes it, in float64.

    Args:
        q: [T, Hk, dk].
        k: [T, Hk, dk].
        v: [T, Hv, dv].
        g: [T, Hv].
        beta: [T, Hv].
        state: [Hv, dk, dv], zeros when None.
        scale: 1/√dk when None.
        normalize: Bring q and k to length 1 first.
    """
    tokens, heads, deep = v.shape
    width = q.shape[2]
    scale = default_scale(width) if scale is None else scale
    q, k = (expand(x.double(), heads) for x in (q, k))
    if normalize:
        q, k = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    v, decay, beta = v.double(), g.double().exp(), beta.double()
    now = torch.zeros(heads, width, deep, dtype=torch.float64) if state is None else state.double()
    out = torch.empty(tokens, heads, deep, dtype=torch.float64)
    size = torch.linalg.vector_norm(now, dim=(1, 2))
    for t in range(tokens):
        kept = decay[t, :, None, None] * now
        u = beta[t, :, None] * (v[t] - torch.einsum("hkv,hk->hv", kept, k[t]))
        now = kept + k[t, :, :, None] * u[:, None, :]
        out[t] = scale * torch.einsum("hkv,hk->hv", now, q[t])
        here = torch.linalg.vector_norm(now, dim=(1, 2)) + torch.linalg.vector_norm(v[t], dim=1)
        size = torch.maximum(size, here)
    return Exact(out, now, size)


def error_bound(size: Tensor, tokens: int, chunk: int) -> Tensor:
    """Bound the 2-norm of a token's error (for q of length 1 and scale 1) and of the state's, by head: [Hv].

    Holds for keys of length 1 and beta in 0 to 1. Every step, and so every chunk, maps the state by a matrix of norm
    at most 1: an error once made is carried on and never grows. What a chunk of C tokens adds is the rounding of
    sums of C products of numbers no larger than ``size``, and of the solution of a unit triangular system whose
    inverse has elements of at most 1; T/C chunks add up. So the error grows no faster than::

        error ≤ c · u · (C + T/C + 8) · size          u = 2^-24

    The form follows from the argument; c = 1/4 was found by trying (a third of that was the worst that was met), and
    the tests hold the computation to it, with gates made to break it.
    """
    return 0.25 * _FP32 * (chunk + tokens / chunk + 8) * size

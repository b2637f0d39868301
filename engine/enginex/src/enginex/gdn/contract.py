"""What every form of the gated delta rule takes and gives back.

For one head with a state S of dk x dv, starting from the state given::

    R   = exp(g[t]) · S
    u   = beta[t] · (v[t] - Rᵀ k[t])
    S   = R + k[t] uᵀ
    o[t] = scale · Sᵀ q[t]

``g`` is the logarithm of the decay and at most 0; minus infinity forgets everything. Where keys have length 1 and
``beta`` lies in 0 to 2, each step shrinks the state or leaves its size, whatever the gates say: then nothing in the
rule can grow without bound, and a computation that makes infinity or NaN out of finite inputs is at fault itself.

Tensors hold one sequence: q and k are [T, Hk, dk], v is [T, Hv, dv], g and beta are [T, Hv], and a state is
[Hv, dk, dv] in fp32. Hv is a multiple of Hk; head h of v goes with head h // (Hv / Hk) of q and k.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check", "default_scale", "expand", "unit"]


def default_scale(width: int) -> float:
    """Return 1/√dk."""
    return float(width**-0.5)


def unit(x: Tensor, eps: float = 1e-6) -> Tensor:
    """Scale the last dimension to length 1, in fp32: ``x / sqrt(Σx² + eps)`` as the models define it.

    The sum of squares of a vector of finite numbers can leave fp32, and so can its root's inverse. Dividing by the
    largest element first keeps both in range.
    """
    x = x.float()
    largest = x.abs().amax(-1, keepdim=True)
    # Where no element is above 1, nothing can overflow and the plain formula is taken, eps and all.
    by = torch.where(largest > 1, largest, torch.ones_like(largest))
    y = x / by
    return y * torch.rsqrt(y.square().sum(-1, keepdim=True) + eps / by / by)


def expand(x: Tensor, heads: int) -> Tensor:
    """Repeat the heads of q or k, [T, Hk, dk], so that there are as many as in v."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def check(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor | None) -> None:
    """Refuse inputs that do not fit together.

    Raises:
        ValueError: With the first thing that is wrong.
    """
    tokens, heads, deep = v.shape
    if q.shape != k.shape or q.shape[0] != tokens:
        raise ValueError(
            f"q {tuple(q.shape)} and k {tuple(k.shape)} do not go with v {tuple(v.shape)}"
        )
    if heads % q.shape[1]:
        raise ValueError(f"{heads} heads of v cannot share {q.shape[1]} heads of q and k")
    for name, gate in (("g", g), ("beta", beta)):
        if tuple(gate.shape) != (tokens, heads):
            raise ValueError(f"{name} has the shape {tuple(gate.shape)}, not {(tokens, heads)}")
    wanted = (heads, q.shape[2], deep)
    if state is not None and (tuple(state.shape) != wanted or state.dtype != torch.float32):
        raise ValueError(
            f"the state is {tuple(state.shape)} in {state.dtype}, not {wanted} in fp32"
        )

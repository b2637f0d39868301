"""The gated delta rule over many tokens: in chunks, with matrix products.

With G[i] the sum of g over the chunk's tokens up to i, and D[i, j] = exp(Σ g[j+1 … i]) for j ≤ i, one chunk is::

    (I + A) U = beta·(V - exp(G)·K S₀)          A[i, j] = beta[i]·D[i, j]·(k[i]·k[j])   for j < i
    O = exp(G)·Q S₀ + (D ∘ Q Kᵀ) U
    S = exp(G[C])·S₀ + Kᵀ (D[C, :]·U)

Four things make it sound. Decays stay logarithms until they are needed, and only sums of them over a stretch that
lies behind a token are ever exponentiated: all of these are at most 0, so no exponential is above 1. Each such sum is
added up by itself, and not taken as the difference of two cumulative sums, which is wrong by their rounding (and
NaN after a gate of minus infinity). The triangular system is solved by substitution in blocks, whose inverses have
elements of at most 1, so that rounding is not amplified. Everything from the inputs on is fp32, the state included.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from enginex.gdn.contract import default_scale, expand, unit

__all__ = ["CHUNK", "chunked", "decays", "solve"]

CHUNK = 64
"""Tokens that go together. A power of two from 16 up; the result does not depend on it but for rounding."""
_BLOCK = 16
_SPAN = 2048  # tokens whose intermediate results are in memory together


def chunked(  # noqa: PLR0913 - the tensors of the contract
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor | None = None,
    *,
    scale: float | None = None,
    normalize: bool = True,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Compute one sequence, as :mod:`enginex.gdn.contract` defines it.

    Args:
        q: [T, Hk, dk], any floating dtype.
        k: [T, Hk, dk].
        v: [T, Hv, dv].
        g: [T, Hv].
        beta: [T, Hv].
        state: [Hv, dk, dv] in fp32, not written to; zeros when None.
        scale: 1/√dk when None.
        normalize: Bring q and k to length 1 first.
        chunk: Tokens that go together.

    Returns:
        The output [T, Hv, dv] in the dtype of v, and the state after the last token, [Hv, dk, dv] in fp32.
    """
    heads, deep = v.shape[1:]
    width = q.shape[2]
    scale = default_scale(width) if scale is None else scale
    now = (
        torch.zeros(heads, width, deep, dtype=torch.float32, device=v.device)
        if state is None
        else state
    )
    out = torch.empty_like(v)
    for at in range(0, v.shape[0], _SPAN):
        here = slice(at, at + _SPAN)
        qs, ks = ((unit(x[here]) if normalize else x[here].float()) for x in (q, k))
        out[here], now = _span(
            (qs * scale, ks, v[here].float()), (g[here].float(), beta[here].float()), now, chunk
        )
    return out, now


def _span(
    tokens: tuple[Tensor, Tensor, Tensor], gates: tuple[Tensor, Tensor], now: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    """Compute q, k, v and g, beta of a stretch of tokens in fp32: the output [T, Hv, dv] and the state."""
    count, heads, deep = tokens[2].shape
    q, k, v = (_in_chunks(expand(x, heads), chunk) for x in tokens)
    g, beta = (_in_chunks(x[..., None], chunk) for x in gates)  # what is padded: decay 1, beta 0
    inside, before, after = decays(g.squeeze(-1))
    before = before[..., None]
    lower = (beta * inside * (k @ k.mT)).tril(-1)
    right = beta * torch.cat([v, before * k], dim=-1)
    solved = solve(lower, right)
    u, w = solved[..., :deep], solved[..., deep:]
    reads = (inside * (q @ k.mT)).tril()
    q_in, k_out = q * before, (k * after[..., None]).mT
    out = torch.empty_like(v)
    for n in range(v.shape[1]):
        new = u[:, n] - w[:, n] @ now
        out[:, n] = q_in[:, n] @ now + reads[:, n] @ new
        now = before[:, n, -1:] * now + k_out[:, n] @ new
    return out.flatten(1, 2)[:, :count].transpose(0, 1), now


def decays(g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the decays inside of chunks from the logarithms [..., C].

    Returns:
        D [..., C, C], the decay from token j to token i, with 0 above the diagonal; the decay from the chunk's start
        to each token, itself included, [..., C]; and that from each token, itself excluded, to the chunk's end.
    """
    size = g.shape[-1]
    # Column j holds g[i] in row i for i > j and 0 above: its running sum is Σ g[j+1 … i].
    spread = g[..., None].expand(*g.shape, size)
    below = torch.ones(size, size, dtype=torch.bool, device=g.device).tril(-1)
    sums = spread.masked_fill(~below, 0).cumsum(-2)
    inside = sums.exp().tril()
    return inside, g.cumsum(-1).exp(), inside[..., -1, :]


def solve(lower: Tensor, right: Tensor) -> Tensor:
    """Solve (I + L) X = R by substitution, block by block.

    Args:
        lower: L, strictly lower triangular, [..., C, C], C a multiple of 16.
        right: R, [..., C, n].

    Returns:
        X, [..., C, n].
    """
    size = lower.shape[-1]
    blocks = range(0, size, _BLOCK)
    diagonal = torch.stack(
        [lower[..., at : at + _BLOCK, at : at + _BLOCK] for at in blocks], dim=-3
    )
    inverse = _inverse(diagonal)
    done = torch.empty_like(right)
    for number, at in enumerate(blocks):
        end = at + _BLOCK
        rest = right[..., at:end, :]
        if at:
            rest = rest - lower[..., at:end, :at] @ done[..., :at, :]
        done[..., at:end, :] = inverse[..., number, :, :] @ rest
    return done


def _inverse(lower: Tensor) -> Tensor:
    """Invert I + L for small strictly lower triangular L, row by row."""
    size = lower.shape[-1]
    found = torch.eye(size, dtype=lower.dtype, device=lower.device).expand(lower.shape).clone()
    for row in range(1, size):
        found[..., row, :row] = -(lower[..., row, None, :row] @ found[..., :row, :row]).squeeze(-2)
    return found


def _in_chunks(x: Tensor, chunk: int) -> Tensor:
    """Cut [T, H, d] into [H, N, C, d], with zeros after the last token."""
    tokens = x.shape[0]
    padded = functional.pad(x, (0, 0, 0, 0, 0, -tokens % chunk))
    return padded.transpose(0, 1).reshape(x.shape[1], -1, chunk, x.shape[2])

"""Sequences with gates that are made to break a computation of the gated delta rule."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

KINDS = ("plain", "near_one", "one", "same_key", "near_zero", "resets", "forgets", "large")


@dataclass(frozen=True)
class Sequence:
    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    beta: Tensor
    state: Tensor | None

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        return self.q, self.k, self.v, self.g, self.beta


def make(  # noqa: PLR0913 - the dimensions of a sequence
    kind: str,
    seed: int,
    tokens: int,
    *,
    heads: int = 4,
    shared: int = 2,
    width: int = 24,
    deep: int = 20,
    with_state: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Sequence:
    made = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=made)

    few = heads // shared
    q, k, v = normal(tokens, few, width), normal(tokens, few, width), normal(tokens, heads, deep)
    beta, chance = (torch.rand(tokens, heads, generator=made) for _ in range(2))
    g = -torch.rand(tokens, heads, generator=made)
    state = normal(heads, width, deep) if with_state else None
    if kind == "near_one":
        g = g * 1e-7
    if kind in {"one", "same_key"}:
        g, beta = torch.zeros_like(g), torch.ones_like(beta)
    if kind == "same_key":
        k = k[:1].expand(tokens, -1, -1).contiguous()
    if kind == "near_zero":
        g = g * 1e4
    if kind == "resets":  # a hard reset now and then, and hardly any decay else
        g = torch.where(chance < 0.05, torch.tensor(-1e6), g * 1e-6)
    if kind == "forgets":
        g = torch.where(chance < 0.05, torch.tensor(float("-inf")), g * 1e-6)
    if kind == "large":
        q, k, v = q * 1e20, k * 1e25, v * 1e20
    return Sequence(q.to(dtype), k.to(dtype), v.to(dtype), g, beta, state)

"""Random layers of routed experts, of every shape and dtype that the contract allows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from enginex.moe.contract import ACTIVATIONS, DTYPES, Form


@dataclass(frozen=True)
class Case:
    hidden: Tensor
    w13: Tensor
    w2: Tensor
    weights: Tensor
    ids: Tensor
    form: Form

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Form]:
        return self.hidden, self.w13, self.w2, self.weights, self.ids, self.form


def make(  # noqa: PLR0913 - the dimensions of a layer
    seed: int,
    tokens: int,
    experts: int,
    width: int,
    inner: int,
    topk: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    activation: str = "silu",
    biased: bool = False,
    renormalized: bool = True,
    duplicates: bool = False,
    scale: float = 1.0,
) -> Case:
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int, by: float = 1.0) -> Tensor:
        return (torch.randn(*shape, generator=rng) * by).to(dtype)

    scores = torch.randn(tokens, experts, generator=rng).softmax(-1)
    weights, ids = torch.topk(scores, topk)
    if duplicates:
        ids = torch.randint(0, experts, (tokens, topk), generator=rng)
    if renormalized:
        weights = weights / weights.sum(-1, keepdim=True)
    return Case(
        normal(tokens, width, by=scale),
        normal(experts, 2 * inner, width, by=width**-0.5),
        normal(experts, width, inner, by=inner**-0.5),
        weights,
        ids.to(torch.int32 if seed % 2 else torch.int64),
        Form(
            activation,
            normal(experts, 2 * inner) if biased else None,
            normal(experts, width) if biased else None,
        ),
    )


@st.composite
def cases(draw: st.DrawFn, *, max_tokens: int = 9) -> Case:
    experts = draw(st.integers(1, 12))
    return make(
        seed=draw(st.integers(0, 2**31)),
        tokens=draw(st.integers(0, max_tokens)),
        experts=experts,
        width=draw(st.integers(1, 70)),
        inner=draw(st.integers(1, 40)),
        topk=draw(st.integers(1, experts)),
        dtype=draw(st.sampled_from(DTYPES)),
        activation=draw(st.sampled_from(sorted(ACTIVATIONS))),
        biased=draw(st.booleans()),
        renormalized=draw(st.booleans()),
        duplicates=draw(st.booleans()),
        scale=draw(st.sampled_from([0.0, 1e-3, 1.0, 8.0])),
    )

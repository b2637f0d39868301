from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from enginex.moe.router import softmax_topk, topk_softmax


@given(
    seed=st.integers(0, 2**31),
    tokens=st.integers(0, 5),
    experts=st.integers(1, 300),
    share=st.floats(0, 1),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
def test_both_forms_choose_the_same_experts_and_weights(
    seed: int, tokens: int, experts: int, share: float, scale: float, dtype: torch.dtype
) -> None:
    topk = max(1, round(share * min(experts, 16)))
    made = torch.Generator().manual_seed(seed)
    # Distinct logits: between equal ones either form may take either expert.
    order = (
        torch.stack([torch.randperm(experts, generator=made) for _ in range(tokens)])
        if tokens
        else torch.empty(0)
    )
    logits = ((order.float() - experts / 2) / experts * scale).reshape(tokens, experts).to(dtype)
    full, full_ids = softmax_topk(logits, topk)
    short, short_ids = topk_softmax(logits, topk)
    chosen = logits.float().gather(1, full_ids).sort(-1).values
    torch.testing.assert_close(
        chosen, logits.float().gather(1, short_ids).sort(-1).values, rtol=0, atol=0
    )
    torch.testing.assert_close(full, short, rtol=2e-6, atol=1e-30)


def test_in_float64_the_forms_agree_with_the_definition() -> None:
    logits = torch.randn(7, 64, generator=torch.Generator().manual_seed(1))
    p = torch.softmax(logits.double(), -1)
    weights, ids = topk_softmax(logits, 8)
    expected = p.gather(1, ids)
    torch.testing.assert_close(
        weights.double(), expected / expected.sum(-1, keepdim=True), rtol=1e-6, atol=0
    )


def test_without_renormalization_the_weights_are_probabilities() -> None:
    logits = torch.randn(4, 16, generator=torch.Generator().manual_seed(2))
    weights, ids = softmax_topk(logits, 4, renormalize=False)
    torch.testing.assert_close(weights, torch.softmax(logits, -1).gather(1, ids))
    assert bool((weights.sum(-1) < 1).all())


def test_large_logits_do_not_overflow() -> None:
    logits = torch.tensor([[3e38, 1.0, -3e38]])
    for weights, _ in (softmax_topk(logits, 2), topk_softmax(logits, 2)):
        assert bool(weights.isfinite().all())

"""Variants made of plain torch operations.

They differ in how they gather. ``direct`` takes views of the weights, one pair of products for each token and expert.
``loop`` reads each distinct expert once, for all tokens that chose it. ``grouped`` does so too, and sorts the tokens by
expert first, so that its products are over slices and its sums one operation: the more tokens, the more that helps.
``tokenwise`` copies the experts of one token together and multiplies them as one matrix, ``bmm`` copies the experts of
all tokens and multiplies them as one batch. On a device where starting an operation is dear and copying is cheap, these
two win at few tokens; at a large model on a CPU the copies ruin them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from enginex.moe.contract import PLAIN, Form, act_and_mul

__all__ = ["bmm", "direct", "grouped", "loop", "tokenwise"]


def loop(
    hidden: Tensor,
    w13: Tensor,
    w2: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    form: Form = PLAIN,
) -> Tensor:
    """One pair of matrix products for each distinct expert, over the tokens that chose it."""
    out = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
    chosen: dict[int, tuple[list[int], list[int]]] = {}
    for token, row in enumerate(topk_ids.tolist()):
        for slot, expert in enumerate(row):
            tokens, slots = chosen.setdefault(expert, ([], []))
            tokens.append(token)
            slots.append(slot)
    weights = topk_weights.float()
    for expert, (tokens, slots) in chosen.items():
        at = torch.tensor(tokens, device=hidden.device)
        gate_up = functional.linear(hidden[at], w13[expert], _row(form.b13, expert, hidden))
        y = functional.linear(
            act_and_mul(gate_up, form.activation), w2[expert], _row(form.b2, expert, hidden)
        )
        weight = weights[at, torch.tensor(slots, device=hidden.device)]
        out.index_add_(0, at, y.float() * weight[:, None])
    return out.to(hidden.dtype)


def tokenwise(
    hidden: Tensor,
    w13: Tensor,
    w2: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    form: Form = PLAIN,
) -> Tensor:
    """For each token, its experts' W13 copied together as one tall matrix, then one batch for W2."""
    out = torch.empty_like(hidden)
    double, width = w13.shape[1:]
    slots = topk_ids.shape[1]
    weights = topk_weights.float()
    for token in range(hidden.shape[0]):
        ids = topk_ids[token]
        tall = w13.index_select(0, ids).view(slots * double, width)
        bias = None if form.b13 is None else form.b13.index_select(0, ids).to(hidden.dtype).view(-1)
        gate_up = functional.linear(hidden[token], tall, bias).view(slots, double)
        h = act_and_mul(gate_up, form.activation)
        y = torch.bmm(w2.index_select(0, ids), h.unsqueeze(2)).squeeze(2).float()
        if form.b2 is not None:
            y = y + form.b2.index_select(0, ids).float()
        out[token] = (y * weights[token][:, None]).sum(0)
    return out


def bmm(
    hidden: Tensor,
    w13: Tensor,
    w2: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    form: Form = PLAIN,
) -> Tensor:
    """The experts of all tokens copied together, and two batched matrix products."""
    tokens, slots = topk_ids.shape
    ids = topk_ids.reshape(-1)
    x = hidden.repeat_interleave(slots, 0).unsqueeze(2)
    gate_up = torch.bmm(w13.index_select(0, ids), x).squeeze(2)
    if form.b13 is not None:
        gate_up = (gate_up.float() + form.b13.index_select(0, ids).float()).to(hidden.dtype)
    h = act_and_mul(gate_up, form.activation)
    y = torch.bmm(w2.index_select(0, ids), h.unsqueeze(2)).squeeze(2).float()
    if form.b2 is not None:
        y = y + form.b2.index_select(0, ids).float()
    y = y.view(tokens, slots, hidden.shape[1]) * topk_weights.float()[:, :, None]
    return y.sum(1).to(hidden.dtype)


def direct(
    hidden: Tensor,
    w13: Tensor,
    w2: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    form: Form = PLAIN,
) -> Tensor:
    """One pair of products over views of the weights for each token and each of its experts."""
    out = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
    weights = topk_weights.float()
    for token, row in enumerate(topk_ids.tolist()):
        x = hidden[token]
        for slot, expert in enumerate(row):
            gate_up = functional.linear(x, w13[expert], _row(form.b13, expert, hidden))
            y = functional.linear(
                act_and_mul(gate_up, form.activation), w2[expert], _row(form.b2, expert, hidden)
            )
            out[token].addcmul_(y.float(), weights[token, slot])
    return out.to(hidden.dtype)


def grouped(
    hidden: Tensor,
    w13: Tensor,
    w2: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    form: Form = PLAIN,
) -> Tensor:
    """Sort the (token, expert) pairs by expert, and go through them expert by expert in slices."""
    tokens, slots = topk_ids.shape
    flat = topk_ids.reshape(-1).long()
    order = flat.argsort(stable=True)
    x = hidden.index_select(0, order.div(max(slots, 1), rounding_mode="floor"))
    ends = torch.bincount(flat, minlength=w13.shape[0]).cumsum(0).tolist()
    y = torch.empty_like(x)
    start = 0
    for expert, end in enumerate(ends):
        if end > start:
            gate_up = functional.linear(x[start:end], w13[expert], _row(form.b13, expert, hidden))
            h = act_and_mul(gate_up, form.activation)
            y[start:end] = functional.linear(h, w2[expert], _row(form.b2, expert, hidden))
        start = end
    back = torch.empty_like(y).index_copy_(0, order, y)
    weighted = back.view(tokens, slots, hidden.shape[1]).float() * topk_weights.float()[:, :, None]
    return weighted.sum(1).to(hidden.dtype)


def _row(bias: Tensor | None, expert: int, like: Tensor) -> Tensor | None:
    return None if bias is None else bias[expert].to(like.dtype)

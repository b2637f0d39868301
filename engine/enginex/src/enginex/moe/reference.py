"""The exact result in float64, and how far from it a variant may lie."""

from __future__ import annotations

import torch
from torch import Tensor

from enginex.moe.contract import ACTIVATIONS, PLAIN, Form

__all__ = ["error_bound", "reference"]

_FP32_EPS = 2.0**-24
_LIPSCHITZ = 1.13
"""The largest slope of the activations (gelu: 1.129, silu: 1.0999)."""


def reference(
    hidden: Tensor,
    w13: Tensor,
    w2: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    form: Form = PLAIN,
) -> Tensor:
    """Compute the contract's ``y`` in float64, token by token and expert by expert: [T, H]."""
    out = torch.zeros(hidden.shape, dtype=torch.float64)
    inner = w2.shape[2]
    for token, row in enumerate(topk_ids.tolist()):
        x = hidden[token].double()
        for slot, expert in enumerate(row):
            gate_up = w13[expert].double() @ x
            if form.b13 is not None:
                gate_up = gate_up + form.b13[expert].double()
            h = ACTIVATIONS[form.activation](gate_up[:inner]) * gate_up[inner:]
            y = w2[expert].double() @ h
            if form.b2 is not None:
                y = y + form.b2[expert].double()
            out[token] += topk_weights[token, slot].double() * y
    return out


def error_bound(
    hidden: Tensor,
    w13: Tensor,
    w2: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    form: Form = PLAIN,
) -> Tensor:
    """Bound |variant - exact| for each element of the result, [T, H] in float64.

    A running error analysis in the standard model of floating point. With u half the spacing of the dtype at 1
    and v that of fp32, each of gate, up, act·up and an expert's output is rounded to the dtype at most twice
    (an error of 2u times the exact value), each sum of n products in fp32 errs by (n+2)·v times the sum of the
    products' sizes, and errors are carried on through the formula. Nothing in it depends on the order of a sum,
    so it holds for every variant.

    Finite inputs whose products leave the dtype's range (fp16 ends at 65504) are outside of the bound.
    """
    info = torch.finfo(hidden.dtype)
    unit, tiny = info.eps, info.tiny  # eps is 2u: two roundings
    width, inner = hidden.shape[1], w2.shape[2]
    slots = topk_ids.shape[1]
    bound = torch.zeros(hidden.shape, dtype=torch.float64)
    exact, sizes = torch.zeros_like(bound), torch.zeros_like(bound)
    for token, row in enumerate(topk_ids.tolist()):
        x = hidden[token].double()
        for slot, expert in enumerate(row):
            weight = topk_weights[token, slot].double()
            w1, b1 = w13[expert].double(), 0.0 if form.b13 is None else form.b13[expert].double()
            w, b = w2[expert].double(), 0.0 if form.b2 is None else form.b2[expert].double()
            gate_up = w1 @ x + b1
            slip = unit * gate_up.abs() + (width + 2) * _FP32_EPS * (w1.abs() @ x.abs()) + tiny
            gate, up = gate_up[:inner], gate_up[inner:]
            acted = ACTIVATIONS[form.activation](gate)
            slip_gate, slip_up = (
                _LIPSCHITZ * slip[:inner] + 8 * _FP32_EPS * acted.abs(),
                slip[inner:],
            )
            h = acted * up
            slip_h = (
                slip_gate * up.abs() + (acted.abs() + slip_gate) * slip_up + unit * h.abs() + tiny
            )
            y = w @ h + b
            carried = w.abs() @ (slip_h * (1 + unit)) + (inner + 2) * _FP32_EPS * (
                w.abs() @ h.abs()
            )
            bound[token] += weight.abs() * ((1 + unit) * carried + unit * y.abs() + tiny)
            exact[token] += weight * y
            sizes[token] += (weight * y).abs()
    return (1 + unit) * bound + unit * exact.abs() + (slots + 2) * _FP32_EPS * sizes + tiny

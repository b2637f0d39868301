"""What every variant takes and gives back.

With T tokens of width H, E experts of inner width I and k experts a token::

    y[t] = Σ_j weights[t, j] · (W2[e] · act(W1[e] · x[t], W3[e] · x[t]) + b2[e])      e = ids[t, j]

``w13`` holds W1 (the gate) in its first I rows and W3 (up) in the other I; ``b13`` is added before the
activation. The top-k weights are used as they come, renormalized or not. An expert may be named twice by one
token (it then counts twice) and by no token at all. T may be 0. A tensor-parallel shard is just a smaller I.

Products are taken in the dtype of the inputs with sums in at least fp32, the activation and the weighted sum in
fp32, and the result is rounded once more to that dtype.
:func:`~enginex.moe.reference.error_bound` says how far from the exact result
this may lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["ACTIVATIONS", "DTYPES", "PLAIN", "Form", "Variant", "act_and_mul", "check"]

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
"""The dtypes of hidden states and weights."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda gate: functional.gelu(gate, approximate="tanh"),
}
"""act(gate) by vLLM's names; the result is multiplied by up."""


@dataclass(frozen=True, slots=True)
class Form:
    """What an expert is besides its two matrices.

    Attributes:
        activation: A key of :data:`ACTIVATIONS`.
        b13: [E, 2I], any floating dtype, or None.
        b2: [E, H], any floating dtype, or None.
    """

    activation: str = "silu"
    b13: Tensor | None = None
    b2: Tensor | None = None


PLAIN = Form()
"""SiLU and no bias, as in the Qwen family."""


class Variant(Protocol):
    """A function that computes the routed experts."""

    def __call__(
        self,
        hidden: Tensor,
        w13: Tensor,
        w2: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        form: Form = PLAIN,
    ) -> Tensor:
        """Compute ``y`` as the module says.

        Args:
            hidden: [T, H].
            w13: [E, 2I, H], the gate's rows first.
            w2: [E, H, I].
            topk_weights: [T, k], any floating dtype.
            topk_ids: [T, k], int32 or int64, each in 0 … E-1.
            form: Activation and biases.

        Returns:
            [T, H] in the dtype of ``hidden``.
        """
        ...


def act_and_mul(gate_up: Tensor, activation: str) -> Tensor:
    """Return act(gate)·up of [..., 2I] as [..., I], computed in fp32 and rounded back."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (ACTIVATIONS[activation](gate) * up).to(gate_up.dtype)


def check(
    hidden: Tensor,
    w13: Tensor,
    w2: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    form: Form = PLAIN,
) -> None:
    """Refuse inputs that break the contract.

    This costs more than a small step does, so the engine calls it once for each layer and not in each step.

    Raises:
        ValueError: With the first thing that is wrong.
    """
    experts, double, width = w13.shape
    tokens, topk = topk_ids.shape
    expected = {
        "hidden": (hidden, (tokens, width)),
        "w2": (w2, (experts, width, double // 2)),
        "topk_weights": (topk_weights, (tokens, topk)),
        "b13": (form.b13, (experts, double)),
        "b2": (form.b2, (experts, width)),
    }
    for name, (tensor, shape) in expected.items():
        if tensor is not None and tuple(tensor.shape) != shape:
            raise ValueError(f"{name} has the shape {tuple(tensor.shape)} and should have {shape}")
    if double % 2:
        raise ValueError(f"w13 has {double} rows an expert; gate and up need an even number")
    if hidden.dtype not in DTYPES or w13.dtype != hidden.dtype or w2.dtype != hidden.dtype:
        raise ValueError(f"dtypes differ or are unknown: {hidden.dtype}, {w13.dtype}, {w2.dtype}")
    if form.activation not in ACTIVATIONS:
        raise ValueError(f"activation {form.activation!r} is not one of {', '.join(ACTIVATIONS)}")
    if topk_ids.numel() and not 0 <= int(topk_ids.min()) <= int(topk_ids.max()) < experts:
        raise ValueError(f"topk_ids must lie in 0 to {experts - 1}")

"""From the model's gate projections to the decay's logarithm and the step size."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["gates", "log_softplus"]

_SMALL = -15.0


def log_softplus(x: Tensor) -> Tensor:
    """Compute log(log(1 + e^x)) in fp32, for every finite x.

    Far below 0, softplus is e^x (1 - e^x/2 + …), whose logarithm is x - e^x/2; softplus itself would be 0 there.
    """
    x = x.float()
    plain = functional.softplus(x.clamp_min(_SMALL)).log()
    return torch.where(x > _SMALL, plain, x - x.clamp_max(_SMALL).exp() / 2)


def gates(a_log: Tensor, a: Tensor, b: Tensor, dt_bias: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``g = -exp(A_log)·softplus(a + dt_bias)`` and ``beta = sigmoid(b)``.

    The product is taken as one exponential of a sum. Taken as it is written, it is NaN where exp(A_log) is infinite
    and the softplus 0, although a product of such size is an ordinary number.

    Args:
        a_log: [Hv].
        a: [T, Hv].
        b: [T, Hv].
        dt_bias: [Hv].

    Returns:
        g and beta, [T, Hv] in fp32; g is at most 0 and may be minus infinity.
    """
    return -(a_log.float() + log_softplus(a.float() + dt_bias.float())).exp(), b.float().sigmoid()

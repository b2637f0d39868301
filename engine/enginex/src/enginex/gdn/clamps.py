"""Another way to write the chunked rule, which overflows, and the five clamps that were put around it.

A port to a device without the usual kernels produced NaN in every GatedDeltaNet layer, replaced it by zeros, and
served a model that answered in grammatical nonsense. Its makers then clamped five quantities. They are written out
here so that each can be measured for what it does: alone, together, around the formula that overflows and around the
one that cannot (:mod:`enginex.gdn.chunked`). Nothing here is meant to serve.

The overflowing formula splits the decay between two tokens into a factor for each, exp(G[i])·exp(-G[j]): one matrix
product fewer to mask, and the second factor is the exponential of a positive sum, infinite once a chunk's
decays add up to -88.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from enginex.gdn.contract import default_scale, expand, unit
from enginex.gdn.gates import gates

__all__ = ["CLAMPS", "NONE", "Clamps", "clamped_gates", "factored"]


@dataclass(frozen=True, slots=True)
class Clamps:
    """Limits, each None where it is off.

    Attributes:
        before_sum: Of each token's g, before sums are taken.
        after_sum: Of the sums of g inside of a chunk.
        a_log: Of the model's ``A_log``.
        substitution: Of each row of the triangular solution.
        state: Of the state between chunks.
        decode_state: Of the state after each decoded token.
    """

    before_sum: float | None = None
    after_sum: float | None = None
    a_log: float | None = None
    substitution: float | None = None
    state: float | None = None
    decode_state: float | None = None

    def only(self, *names: str) -> Clamps:
        """Keep the named limits and switch the others off."""
        return replace(self, **{f.name: None for f in fields(self) if f.name not in names})


NONE = Clamps()

CLAMPS = {
    "gates before the sum": ("before_sum", "after_sum"),
    "A_log": ("a_log",),
    "substitution rows": ("substitution",),
    "state between chunks": ("state",),
    "state in decode": ("decode_state",),
}
"""The five, each with the limits that it consists of."""

ALL = Clamps(0.5, 12.0, 5.0, 1e4, 1e4, 1e4)
"""The five with the values that were used."""


def clamped_gates(
    a_log: Tensor, a: Tensor, b: Tensor, dt_bias: Tensor, clamps: Clamps
) -> tuple[Tensor, Tensor]:
    """Compute g and beta as :func:`enginex.gdn.gates.gates`, with the limits of A_log and of g."""
    g, beta = gates(_limit(a_log.float(), clamps.a_log), a, b, dt_bias)
    return _limit(g, clamps.before_sum), beta


def factored(  # noqa: PLR0913 - the tensors of the contract
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor | None = None,
    *,
    clamps: Clamps = NONE,
    chunk: int = 64,
) -> tuple[Tensor, Tensor]:
    """Compute the rule with the decay split into two factors; arguments and results as ``chunked``."""
    tokens, heads, deep = v.shape
    q, k = expand(unit(q), heads) * default_scale(q.shape[2]), expand(unit(k), heads)
    now = torch.zeros(heads, q.shape[2], deep) if state is None else state
    out = torch.empty(tokens, heads, deep)
    for at in range(0, tokens, chunk):
        qs, ks, vs = (x[at : at + chunk].float().transpose(0, 1) for x in (q, k, v))
        b = beta[at : at + chunk].float().T[..., None]
        total = _limit(
            _limit(g[at : at + chunk].float(), clamps.before_sum).T.cumsum(-1)[..., None],
            clamps.after_sum,
        )
        grown, shrunk = total.exp(), (-total).exp()
        lower = (b * ((ks * grown) @ (ks * shrunk).mT)).tril(-1)
        new = _substitute(lower, b * (vs - (ks * grown) @ now), clamps.substitution)
        reads = ((qs * grown) @ (ks * shrunk).mT).tril()
        out[at : at + chunk] = ((qs * grown) @ now + reads @ new).transpose(0, 1)
        now = grown[:, -1:] * (now + (ks * shrunk).mT @ new)
        now = _limit(now, clamps.state)
    return out.to(v.dtype), now


def _substitute(lower: Tensor, right: Tensor, limit: float | None) -> Tensor:
    """Solve (I + L) X = R row by row, each row held to the limit."""
    found = right.clone()
    for row in range(right.shape[-2]):
        done = found[..., :row, :].clone()
        value = right[..., row, :] - (lower[..., row, None, :row] @ done).squeeze(-2)
        found[..., row, :] = _limit(value, limit)
    return found


def _limit(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)

"""What each of the five clamps does: this is what ``docs/explanation/kernels.md`` says of them."""

from __future__ import annotations

import pytest
import torch
from gdn.hostile import make
from torch import Tensor

from enginex.gdn.chunked import chunked
from enginex.gdn.clamps import ALL, CLAMPS, NONE, clamped_gates, factored
from enginex.gdn.gates import gates
from enginex.gdn.reference import reference


def away(found: Tensor, exact: Tensor) -> float:
    return float(torch.linalg.vector_norm(found.double() - exact) / torch.linalg.vector_norm(exact))


def test_with_mild_gates_both_formulas_agree() -> None:
    seq = make("plain", 1, 130)
    exact = reference(*seq.tensors, seq.state).out
    assert away(factored(*seq.tensors, seq.state)[0], exact) < 1e-5
    assert away(chunked(*seq.tensors, seq.state)[0], exact) < 1e-6


def test_ordinary_decay_is_enough_to_make_the_split_formula_nan() -> None:
    """A decay of e^-2 a token is e^-128 over a chunk, and e^128 is not in fp32."""
    seq = make("plain", 1, 130)
    g = torch.full_like(seq.g, -2.0)
    q, k, v, _, beta = seq.tensors
    assert not bool(factored(q, k, v, g, beta)[0].isfinite().all())
    assert away(chunked(q, k, v, g, beta)[0], reference(q, k, v, g, beta).out) < 1e-6


def test_the_clamps_make_it_finite_and_wrong() -> None:
    seq = make("near_zero", 1, 130)
    exact = reference(*seq.tensors, seq.state).out
    out, _ = factored(*seq.tensors, seq.state, clamps=ALL)
    assert bool(out.isfinite().all())
    assert away(out, exact) > 0.1


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gates before the sum", True),
        ("substitution rows", False),
        ("state between chunks", False),
    ],
)
def test_one_clamp_alone_around_mild_values(name: str, changes: bool) -> None:  # noqa: FBT001 - a parameter
    seq = make("plain", 1, 130)
    exact = reference(*seq.tensors, seq.state).out
    out, _ = factored(*seq.tensors, seq.state, clamps=ALL.only(*CLAMPS[name]))
    assert (away(out, exact) > 1e-3) == changes


def test_clamping_a_log_changes_models_that_decay_fast() -> None:
    a_log, a = torch.full((4,), 7.0), torch.full((3, 4), -6.0)
    b, bias = torch.zeros(3, 4), torch.zeros(4)
    g, _ = gates(a_log, a, b, bias)
    limited, _ = clamped_gates(a_log, a, b, bias, ALL.only("a_log"))
    assert float((limited / g).max()) < 0.2
    same, _ = clamped_gates(a_log, a, b, bias, NONE)
    assert torch.equal(same, g)


def test_only_keeps_what_is_named() -> None:
    assert ALL.only("state").state == ALL.state
    assert ALL.only("state").a_log is None
    assert ALL.only() == NONE

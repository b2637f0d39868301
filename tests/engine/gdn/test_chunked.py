from __future__ import annotations

import pytest
import torch
from gdn.hostile import KINDS, Sequence, make
from hypothesis import given
from hypothesis import strategies as st

from enginex.gdn.chunked import CHUNK, chunked, decays, solve
from enginex.gdn.contract import check, unit
from enginex.gdn.reference import error_bound, reference


def holds(seq: Sequence, chunk: int = CHUNK) -> None:
    check(*seq.tensors, seq.state)
    out, state = chunked(*seq.tensors, seq.state, scale=1.0, chunk=chunk)
    exact = reference(*seq.tensors, seq.state, scale=1.0)
    bound = error_bound(exact.size, seq.v.shape[0], chunk)
    away = torch.linalg.vector_norm(out.double() - exact.out, dim=-1)
    assert bool(out.isfinite().all())
    assert bool(state.isfinite().all())
    assert bool((away <= bound).all())
    assert bool((torch.linalg.vector_norm(state.double() - exact.state, dim=(1, 2)) <= bound).all())


@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**31),
    tokens=st.integers(0, 200),
    shared=st.sampled_from([1, 2, 4]),
    with_state=st.booleans(),
    chunk=st.sampled_from([16, 32, 64]),
)
def test_within_the_stated_bound_of_the_step_by_step_reference(
    kind: str,
    seed: int,
    tokens: int,
    shared: int,
    with_state: bool,  # noqa: FBT001 - drawn by hypothesis
    chunk: int,
) -> None:
    holds(make(kind, seed, tokens, shared=shared, with_state=with_state), chunk)


@pytest.mark.parametrize("kind", KINDS)
def test_over_a_long_sequence_the_error_does_not_grow(kind: str) -> None:
    seq = make(kind, 3, 5000, heads=2, shared=1, width=16, deep=8)
    holds(seq)
    out, _ = chunked(*seq.tensors, seq.state)
    exact = reference(*seq.tensors, seq.state).out
    away = torch.linalg.vector_norm(out.double() - exact) / torch.linalg.vector_norm(exact)
    assert float(away) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_in_bf16_the_error_is_a_rounding(kind: str) -> None:
    seq = make(kind, 5, 150, dtype=torch.bfloat16)
    out, state = chunked(*seq.tensors, seq.state)
    assert out.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    exact = reference(*seq.tensors, seq.state).out
    away = torch.linalg.vector_norm(out.double() - exact) / torch.linalg.vector_norm(exact)
    assert float(away) < 3e-3


def test_a_sequence_cut_in_two_is_the_same_sequence() -> None:
    seq = make("plain", 1, 100)
    whole, last = chunked(*seq.tensors, seq.state)
    first, between = chunked(*(x[:37] for x in seq.tensors), seq.state)
    second, end = chunked(*(x[37:] for x in seq.tensors), between)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(end, last)


def test_the_state_given_is_not_written_to() -> None:
    seq = make("plain", 1, 70)
    assert seq.state is not None
    before = seq.state.clone()
    chunked(*seq.tensors, seq.state)
    assert torch.equal(seq.state, before)


def test_nan_comes_through_and_stays_in_its_head() -> None:
    seq = make("plain", 1, 70)
    seq.v[10, 1, 3] = float("nan")
    out, _ = chunked(*seq.tensors, seq.state)
    assert bool(out[64:, 1].isnan().any())
    assert bool(out[:, [0, 2, 3]].isfinite().all())


@given(seed=st.integers(0, 2**31), scale=st.sampled_from([0.1, 1.0]))
def test_solve_is_a_solution(seed: int, scale: float) -> None:
    made = torch.Generator().manual_seed(seed)
    lower = scale * torch.randn(3, 32, 32, generator=made).tril(-1) / 32
    right = torch.randn(3, 32, 5, generator=made)
    found = solve(lower, right)
    torch.testing.assert_close(found + lower @ found, right, rtol=1e-5, atol=1e-5)


def test_decays_after_a_gate_of_minus_infinity_are_exact() -> None:
    g = torch.tensor([-0.5, float("-inf"), -1e-3, -2e-3])
    inside, before, after = decays(g)
    expected = torch.tensor([float("-inf"), -3e-3, -2e-3, 0.0]).exp()
    torch.testing.assert_close(inside[3], expected, rtol=1e-7, atol=0)
    torch.testing.assert_close(before, torch.tensor([float(torch.tensor(-0.5).exp()), 0, 0, 0]))
    assert torch.equal(after, inside[3])


@given(seed=st.integers(0, 2**31), size=st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 1e18, 1e37]))
def test_unit_has_length_one_whatever_the_size(seed: int, size: float) -> None:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)) * size
    exact = x.double() * torch.rsqrt(x.double().square().sum(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(unit(x).double(), exact, rtol=1e-6, atol=1e-30)


def test_the_check_names_what_is_wrong() -> None:
    seq = make("plain", 1, 4)
    q, k, v, g, beta = seq.tensors
    with pytest.raises(ValueError, match="do not go with v"):
        check(q[:3], k, v, g, beta, None)
    with pytest.raises(ValueError, match="4 heads of v cannot share 3"):
        check(*(x.expand(-1, 3, -1) for x in (q[:, :1], k[:, :1])), v, g, beta, None)
    with pytest.raises(ValueError, match="beta has the shape"):
        check(q, k, v, g, beta[:, :2], None)
    with pytest.raises(ValueError, match=r"in torch\.float64, not"):
        check(q, k, v, g, beta, seq.state.double() if seq.state is not None else None)

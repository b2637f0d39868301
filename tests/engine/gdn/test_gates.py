from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from enginex.gdn.gates import gates, log_softplus

WIDE = st.floats(-1e4, 1e4, width=32)


@given(x=WIDE)
def test_log_softplus(x: float) -> None:
    exact = math.log(math.log1p(math.exp(x))) if -30 < x < 30 else (x if x < 0 else math.log(x))
    found = float(log_softplus(torch.tensor(x)))
    assert math.isclose(found, exact, rel_tol=1e-6, abs_tol=1e-6)


@given(a_log=WIDE, a=WIDE, b=WIDE, bias=WIDE)
def test_any_finite_parameters_give_gates_in_their_range(
    a_log: float, a: float, b: float, bias: float
) -> None:
    g, beta = gates(*(torch.tensor([x]) for x in (a_log, a, b, bias)))
    assert not bool(g.isnan())
    assert float(g) <= 0
    assert 0 <= float(beta) <= 1


def test_a_large_factor_times_a_small_one_is_an_ordinary_number() -> None:
    a_log, a = torch.tensor([100.0]), torch.tensor([-100.0])
    plain = -a_log.exp() * torch.nn.functional.softplus(a)
    assert not bool(plain.isfinite())
    g, _ = gates(a_log, a, torch.zeros(1), torch.zeros(1))
    torch.testing.assert_close(g, torch.tensor([-1.0]), rtol=1e-5, atol=0)

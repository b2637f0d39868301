from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.score.gates import OFFICIAL, Gate, Outcome, judge

LEAST = Gate("output_tps_p10", 20.0, at_least=True)
MOST = Gate("ttft_p90_s", 5.0, at_least=False)


@pytest.mark.parametrize(
    ("gate", "value", "outcome", "margin"),
    [
        (LEAST, 20.0, Outcome.PASSED, 0.0),
        (LEAST, 25.0, Outcome.PASSED, 0.25),
        (LEAST, 15.0, Outcome.FAILED, -0.25),
        (LEAST, 0.0, Outcome.FAILED, -1.0),
        (MOST, 5.0, Outcome.PASSED, 0.0),
        (MOST, 4.0, Outcome.PASSED, 0.2),
        (MOST, 30.0, Outcome.FAILED, -5.0),
    ],
)
def test_margin_and_outcome(gate: Gate, value: float, outcome: Outcome, margin: float) -> None:
    (found,) = judge([gate], {gate.figure: value})
    assert found.outcome is outcome
    assert found.margin == pytest.approx(margin)


@pytest.mark.parametrize("figures", [{}, {"ttft_p90_s": None}])
def test_a_figure_that_could_not_be_had_is_not_passed(figures: dict[str, float | None]) -> None:
    (found,) = judge([MOST], figures)
    assert (found.outcome, found.margin, found.constraint) == (Outcome.UNMEASURED, None, 1.0)


@pytest.mark.parametrize("gate", [LEAST, MOST])
def test_half_as_good_and_twice_as_good(gate: Gate) -> None:
    half = gate.limit / 2 if gate.at_least else gate.limit * 2
    twice = gate.limit * 2 if gate.at_least else gate.limit / 2
    assert judge([gate], {gate.figure: half})[0].constraint == pytest.approx(0.5)
    assert judge([gate], {gate.figure: twice})[0].constraint == pytest.approx(-0.5)


@given(
    limit=st.floats(0, 1e6),
    values=st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)),
    at_least=st.booleans(),
)
def test_constraint_is_bounded_ordered_and_agrees_with_the_outcome(
    *, limit: float, values: tuple[float, float], at_least: bool
) -> None:
    gate = Gate("weighted", limit, at_least=at_least)
    low, high = (judge([gate], {"weighted": v})[0] for v in sorted(values))
    for found in (low, high):
        assert -1 <= found.constraint <= 1
        assert (found.constraint <= 0) == (found.outcome is Outcome.PASSED)
        assert found.margin is not None
        assert (found.margin >= 0) == (found.outcome is Outcome.PASSED)
    if at_least:
        assert high.constraint <= low.constraint
    else:
        assert high.constraint >= low.constraint


def test_a_limit_of_nothing() -> None:
    gate = Gate("repetition_rate", 0.0, at_least=False)
    assert judge([gate], {gate.figure: 0.0})[0].outcome is Outcome.PASSED
    assert judge([gate], {gate.figure: 0.1})[0].outcome is Outcome.FAILED


@pytest.mark.parametrize("limit", [-1.0, float("nan"), float("inf")])
def test_impossible_limits_are_refused(limit: float) -> None:
    with pytest.raises(ValueError, match="limit"):
        Gate("ttft_p90_s", limit, at_least=False)


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(ValueError, match="tfft_p90_s"):
        Gate("tfft_p90_s", 5.0, at_least=False)


def test_official_gates() -> None:
    assert [str(gate) for gate in OFFICIAL] == [
        "success_rate >= 0.99",
        "cache_hit_rate >= 0.5",
        "ttft_p90_s <= 5",
        "output_tps_p10 >= 20",
        "weighted >= 8000",
    ]

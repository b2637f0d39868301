from __future__ import annotations

import pytest

from tuner.score.combine import combine, pessimistic_for
from tuner.score.gates import Gate
from tuner.score.rank import Standing, Tier, standing

QUICK = (Gate("ttft_p90_s", 2.0, at_least=False),)


def made(score: float | None, ttft: float = 1.0, success: float = 1.0) -> Standing:
    return standing({"success_rate": success, "ttft_p90_s": ttft, "weighted": score}, QUICK)


def test_score_is_the_weighted_mean() -> None:
    found = combine({"a": made(100.0), "b": made(200.0)}, {"a": 3, "b": 1})
    assert found.score == pytest.approx(125.0)
    assert found.tier is Tier.FEASIBLE


def test_a_load_without_weight_is_gated_and_not_scored() -> None:
    weights = {"a": 1, "b": 0}
    assert combine({"a": made(100.0), "b": made(None)}, weights).score == 100.0
    slow = combine({"a": made(100.0), "b": made(None, ttft=3.0)}, weights)
    assert slow.tier is Tier.INFEASIBLE


def test_a_load_without_a_score_leaves_none() -> None:
    found = combine({"a": made(100.0), "b": made(None)}, {"a": 1, "b": 1})
    assert (found.score, found.tier) == (None, Tier.INFEASIBLE)


def test_an_incomplete_load_makes_the_whole_incomplete() -> None:
    found = combine({"a": made(100.0), "b": made(900.0, success=0.5)}, {"a": 1, "b": 1})
    assert (found.tier, found.success_rate) == (Tier.INCOMPLETE, 0.5)


def test_constraints_are_named_by_load_and_complete() -> None:
    found = combine({"a": made(1.0), "b": made(1.0, ttft=4.0)}, {"a": 1, "b": 1})
    assert list(found.constraints) == ["population", "a:ttft_p90_s_max", "b:ttft_p90_s_max"]
    assert found.constraints["b:ttft_p90_s_max"] == pytest.approx(0.5)
    assert list(pessimistic_for({"a": QUICK, "b": QUICK})) == list(found.constraints)


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ({"a": 1.0}, "each load"),
        ({"a": 1.0, "b": -1.0}, "0 or more"),
        ({"a": 0.0, "b": 0.0}, "not all"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights: dict[str, float], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        combine({"a": made(1.0), "b": made(1.0)}, weights)


def test_objectives_must_agree() -> None:
    other = standing({"success_rate": 1.0, "output_tps": 5.0}, (), objective="output_tps")
    with pytest.raises(ValueError, match="different objectives"):
        combine({"a": made(1.0), "b": other}, {"a": 1, "b": 1})

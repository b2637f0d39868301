from __future__ import annotations

import pytest
from pydantic import ValidationError

from tuner.fidelity.agreement import Agreement, Ladder, Level, agree

LADDER = Ladder(levels=(Level(name="short", cost=1), Level(name="real", cost=5)))
REAL = {f"p{i}": [10.0 * 1.3**i] for i in range(6)}


def stands(cheap: dict[str, float], sigma: float | None = 0.02) -> Agreement:
    return agree("short", {p: [v] for p, v in cheap.items()}, REAL, (None, sigma), LADDER)


def test_the_bias_is_the_median_ratio() -> None:
    found = stands({p: v[0] * 2 for p, v in REAL.items()})
    assert found.standing == "agrees"
    assert found.bias == pytest.approx(0.5)
    assert found.spread == pytest.approx(0)
    assert (found.tau, found.regret, found.pairs) == (1, 0, 15)


def test_a_level_that_turns_the_order_round_misleads() -> None:
    found = stands({p: 1 / v[0] for p, v in REAL.items()})
    assert found.standing == "misleads"
    assert "below the best" in found.why


def test_a_level_that_orders_badly_below_a_right_choice_misleads() -> None:
    cheap = {p: 1 / v[0] for p, v in REAL.items()}
    cheap["p5"] = 100.0
    found = stands(cheap)
    assert found.regret == 0
    assert found.standing == "misleads"
    assert "tau-b" in found.why


def test_a_choice_that_is_worse_by_no_more_than_noise_is_forgiven() -> None:
    real = {**REAL, "p6": [REAL["p5"][0] * 0.93]}
    cheap = {p: [v[0]] for p, v in real.items()} | {"p6": [1000.0]}
    assert agree("short", cheap, real, (None, 0.001), LADDER).standing == "misleads"
    found = agree("short", cheap, real, (None, 0.05), LADDER)
    assert found.regret == pytest.approx(0.07)
    assert found.standing == "agrees"


def test_a_choice_that_the_level_itself_was_not_sure_of_is_forgiven() -> None:
    real = {**REAL, "p6": [REAL["p5"][0] * 0.9]}
    cheap = {p: [v[0]] for p, v in real.items()} | {"p6": [REAL["p5"][0] * 1.05]}
    assert agree("short", cheap, real, (0.01, 0.01), LADDER).standing == "misleads"
    assert agree("short", cheap, real, (0.04, 0.01), LADDER).standing == "agrees"


@pytest.mark.parametrize(
    ("cheap", "sigma", "reason"),
    [
        ({}, 0.02, "0 points"),
        ({"p0": 1.0}, 0.02, "1 points"),
        ({"p0": 1.0, "p1": 2.0, "p2": 3.0}, 0.02, "3 of 6 pairs"),
        ({p: v[0] for p, v in REAL.items()}, None, "no point was measured twice"),
        ({p: v[0] for p, v in REAL.items()}, 0.9, "0 of 6 pairs"),
    ],
)
def test_too_little_proves_nothing(
    cheap: dict[str, float], sigma: float | None, reason: str
) -> None:
    found = stands(cheap, sigma)
    assert found.standing == "unproven"
    assert reason in found.why


def test_a_ladder_needs_levels_that_cost_something() -> None:
    with pytest.raises(ValidationError):
        Ladder(levels=())
    with pytest.raises(ValidationError):
        Level(name="free", cost=0)

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.score.confirm import Confirmation, Decision, Next, winner
from tuner.score.paired import ABBA, Arm, Run

PLAN = Confirmation(finalists=3, worthwhile=0.01)


def confirm(
    generator: np.random.Generator, effect: float, plan: Confirmation = PLAN, sigma: float = 0.02
) -> tuple[Decision, int]:
    runs: list[Run] = []
    while True:
        for arm in ABBA:
            level = effect if arm is Arm.CANDIDATE else 0.0
            runs.append(Run(arm, math.exp(level + sigma * generator.standard_normal())))
        decision = plan.decide(runs)
        if decision.next is not Next.GO_ON:
            return decision, len(runs)


def shares(effect: float, plan: Confirmation = PLAN, studies: int = 600) -> dict[Next, float]:
    generator = np.random.default_rng(11)
    found = [confirm(generator, effect, plan)[0].next for _ in range(studies)]
    return {outcome: found.count(outcome) / studies for outcome in Next}


def test_no_effect_has_no_winner() -> None:
    found = shares(0.0)
    # 0.05 / 2 / 3 finalists is 0.8 % in truth; 2 % is four standard deviations away
    assert found[Next.BETTER] <= 0.02
    assert found[Next.WORSE] <= 0.02


def test_five_percent_in_two_percent_noise_is_found() -> None:
    assert shares(math.log(1.05))[Next.BETTER] >= 0.95


def test_times_are_better_when_lower() -> None:
    plan = Confirmation(finalists=3, better="lower")
    assert shares(-math.log(1.05), plan, studies=200)[Next.BETTER] >= 0.95
    assert shares(math.log(1.05), plan, studies=200)[Next.BETTER] == 0
    assert shares(math.log(1.5), plan, studies=200)[Next.WORSE] >= 0.95


def test_no_more_blocks_than_it_takes() -> None:
    generator = np.random.default_rng(12)
    large = [confirm(generator, math.log(1.5))[1] for _ in range(50)]
    bad = [confirm(generator, math.log(0.7))[1] for _ in range(50)]
    assert set(large) == set(bad) == {8}


def test_hopeless_candidates_are_given_up() -> None:
    generator = np.random.default_rng(13)
    spent = [confirm(generator, 0.0)[1] for _ in range(200)]
    patient = Confirmation(finalists=3, give_up=0.0)
    full = [confirm(generator, 0.0, patient)[1] for _ in range(200)]
    assert np.mean(spent) < 0.75 * np.mean(full)


def test_only_declared_looks_decide() -> None:
    runs = [Run(arm, 200.0 if arm is Arm.CANDIDATE else 100.0) for arm in ABBA * 2]
    assert PLAN.decide([]).next is Next.GO_ON
    assert PLAN.decide(runs[:4]) == Decision(Next.GO_ON, None)
    assert PLAN.decide(runs[:7]) == Decision(Next.GO_ON, None)
    assert PLAN.decide(runs).next is Next.BETTER


def test_confidence_is_shared_by_looks_and_finalists() -> None:
    assert PLAN.confidence == pytest.approx(1 - 0.05 / 12)
    assert Confirmation(looks=(3,)).confidence == pytest.approx(0.95)


def test_equal_measurements_end_without_a_winner() -> None:
    runs = [Run(arm, 100.0) for arm in ABBA * 2]
    assert PLAN.decide(runs).next is Next.NO_CLEAR_WINNER


def test_the_winner_is_the_one_with_the_largest_gain() -> None:
    generator = np.random.default_rng(14)
    decisions = {
        name: confirm(generator, math.log(ratio))[0]
        for name, ratio in (("small", 1.2), ("large", 1.4), ("none", 1.0), ("bad", 0.8))
    }
    assert winner(decisions) == "large"
    assert winner({"none": decisions["none"], "bad": decisions["bad"]}) is None
    assert winner({}) is None


@pytest.mark.parametrize(
    "wrong",
    [{"finalists": 0}, {"error": 0.0}, {"give_up": 1.0}, {"looks": ()}, {"looks": (3, 2)}],
)
def test_impossible_plans_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"confirmation|looks"):
        Confirmation(**wrong)  # type: ignore[arg-type]  # the point is what it refuses

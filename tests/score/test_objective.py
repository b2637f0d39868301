from __future__ import annotations

import pytest

from tuner.score.goodput import Limits
from tuner.score.objective import WEIGHTED, Objective
from tuner.score.pareto import Objectives

LIMITS = Limits(ttft_s=2, output_tps=10)
GOODPUT = Objective("goodput_rps", LIMITS)
BALANCED = Objective("output_tps", pair=Objectives("output_tps", "ttft_p90_s", balance=0.25))
LIMITED = Objective(
    "output_tps", pair=Objectives("output_tps", "ttft_p90_s", best="ttft_p90_s", limit=50.0)
)
FOUND = {"weighted": 900.0, "goodput_rps": 1.5, "output_tps": 16.0, "ttft_p90_s": 0.25}


@pytest.mark.parametrize(
    ("objective", "score"),
    [(WEIGHTED, 900.0), (GOODPUT, 1.5), (BALANCED, 16**0.25 * 4**0.75), (LIMITED, 4.0)],
)
def test_one_number_that_is_better_when_higher(objective: Objective, score: float) -> None:
    assert objective.score(FOUND) == pytest.approx(score)
    assert objective.score(dict.fromkeys(FOUND)) is None


def test_only_the_weighted_score_is_the_usual_one() -> None:
    assert WEIGHTED.usual
    assert not any(o.usual for o in (GOODPUT, BALANCED, LIMITED))


def test_the_gate_of_a_rule() -> None:
    assert str(LIMITED.gate) == "output_tps >= 50"
    assert (WEIGHTED.gate, GOODPUT.gate, BALANCED.gate) == (None, None, None)


def test_the_words_say_what_the_score_is() -> None:
    assert WEIGHTED.words == "weighted score"
    assert GOODPUT.words == (
        "goodput (req/s), counting requests that keep ttft_s at most 2, output_tps at least 10"
    )
    assert BALANCED.words == "output_tps^0.25 · ttft_p90_s^-0.75"
    assert LIMITED.words == (
        "TTFT P90 (s), as its reciprocal, with output TPS, aggregate (tok/s) at least 50"
    )


def test_goodput_without_limits_is_no_objective() -> None:
    with pytest.raises(ValueError, match="limits"):
        Objective("goodput_rps")
    with pytest.raises(ValueError, match="figure"):
        Objective("speed")

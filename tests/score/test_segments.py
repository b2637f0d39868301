from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tuner.load.record import ErrorClass, Record
from tuner.score.noise import Noise
from tuner.score.segments import EarlyStop, segment_ratios

Make = Callable[..., Record]
NOISE = Noise(sigma=0.02, df=20)
RULE = EarlyStop(NOISE)


def ratios(
    generator: np.random.Generator, effect: float, segments: int = 64, within: float = 0.05
) -> np.ndarray:
    """Segments of two runs: each run has its own luck, which all of its segments share."""
    luck = NOISE.sigma * math.sqrt(2) * generator.standard_normal()
    return effect + luck + within * math.sqrt(2) * generator.standard_normal(segments)


@pytest.mark.slow
def test_an_equal_trial_is_rarely_stopped_for_the_luck_of_its_run() -> None:
    generator = np.random.default_rng(21)
    stopped = sum(RULE.decide(ratios(generator, 0.0)).stop for _ in range(1000))
    assert stopped <= 50  # 5 % is declared; the half that is due to the run alone is 2.5 %


def test_without_the_margin_the_luck_of_the_run_stops_equal_trials() -> None:
    generator = np.random.default_rng(21)
    blind = EarlyStop(Noise(sigma=1e-9, df=20))
    stopped = sum(blind.decide(ratios(generator, 0.0)).stop for _ in range(300))
    assert stopped > 45  # 15 %, three times what is declared


def test_a_much_worse_trial_is_stopped_at_the_first_look() -> None:
    generator = np.random.default_rng(22)
    for _ in range(50):
        found = RULE.decide(ratios(generator, math.log(0.6)))
        assert (found.stop, found.segments) == (True, 8)
        assert found.ratio == pytest.approx(0.6, rel=0.2)


@pytest.mark.slow
def test_a_better_trial_is_never_stopped() -> None:
    generator = np.random.default_rng(23)
    assert not any(RULE.decide(ratios(generator, 0.1)).stop for _ in range(300))


def test_before_the_first_look_nothing_is_said() -> None:
    found = RULE.decide([-1.0] * 7)
    assert (found.stop, found.ratio, found.p, found.segments) == (False, None, None, 0)


def test_a_decision_does_not_hang_on_what_came_later() -> None:
    bad = [-1.0 - i / 100 for i in range(8)]
    assert RULE.decide(bad) == RULE.decide(bad + [5.0] * 24)


def test_equal_segments_are_no_evidence() -> None:
    found = EarlyStop(Noise(1e-12, 5)).decide([0.0] * 8)
    assert not found.stop


@pytest.mark.parametrize("wrong", [{"looks": ()}, {"looks": (8, 8)}, {"error": 1.0}])
def test_impossible_rules_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"looks|error"):
        EarlyStop(NOISE, **wrong)  # type: ignore[arg-type]  # the point is what it refuses


class TestSegments:
    def load(self, make_record: Make, slow: float = 1.0) -> list[Record]:
        return [
            make_record(
                10.0 * session + turn, ttft=slow, step=0.1 * slow, session=session, turn=turn
            )
            for session in (2, 0, 1)
            for turn in (0, 1)
        ]

    def test_each_conversation_is_compared_with_itself(self, make_record: Make) -> None:
        found = segment_ratios(self.load(make_record, 2.0), self.load(make_record))
        assert found == pytest.approx([math.log(0.5)] * 3)

    def test_order_is_that_in_which_the_candidate_finished(self, make_record: Make) -> None:
        candidate = self.load(make_record)
        candidate[0] = replace(candidate[0], output_tokens=100)  # session 2, which ends last
        found = segment_ratios(candidate, self.load(make_record))
        assert found[:2] == pytest.approx([0.0, 0.0])
        assert found[2] > 0

    def test_a_conversation_that_is_not_over_is_left_out(self, make_record: Make) -> None:
        reference = self.load(make_record)
        assert segment_ratios(reference[:5], reference).size == 2
        open_end = [*reference[:5], replace(reference[5], end=None)]
        assert segment_ratios(open_end, reference).size == 2

    def test_a_failure_costs_its_time_and_brings_nothing(self, make_record: Make) -> None:
        reference = self.load(make_record)
        failed = replace(reference[0], error=ErrorClass.STREAM_ERROR)
        found = segment_ratios([failed, *reference[1:]], reference)
        assert found[2] == pytest.approx(math.log(0.5))

    def test_nothing_in_common(self, make_record: Make) -> None:
        assert segment_ratios([], self.load(make_record)).size == 0
        assert segment_ratios([make_record(session=9)], self.load(make_record)).size == 0

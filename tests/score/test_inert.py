from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.score.inert import Effect, parameter_effect
from tuner.score.noise import Noise

NOISE = Noise(sigma=0.02, df=12)


def test_a_difference_beyond_the_noise_is_seen() -> None:
    trials = [({"impl": "loop"}, 100.0), ({"impl": "native"}, 200.0), ({"impl": "bmm"}, 150.0)]
    found = parameter_effect(trials, "impl", NOISE)
    assert found.effect is Effect.SEEN
    assert not found.keeps_baseline
    assert found.largest == pytest.approx(1.0)


def test_variants_of_the_worklog_that_take_the_same_path(worklog: dict[str, Any]) -> None:
    trials = [
        ({"impl": row["impl"], "tiny_max": row["tiny_max"]}, row["output_tps_p10"])
        for row in worklog["moe_variants"]["rows"]
        if row["impl"] == "tokenwise"
    ]
    found = parameter_effect(trials, "tiny_max", NOISE)
    assert (found.effect, found.trials) == (Effect.INSIDE_NOISE, 3)
    assert found.keeps_baseline
    assert found.largest == pytest.approx(6.377 / 6.292 - 1)


def test_many_runs_exclude_an_effect() -> None:
    generator = np.random.default_rng(8)
    trials = [
        ({"a": a, "b": b}, 100 * math.exp(0.3 * b + generator.normal(0, 0.02)))
        for a in (1, 2)
        for b in range(4)
        for _ in range(12)
    ]
    quiet = Noise(sigma=0.02, df=80)
    assert parameter_effect(trials, "a", quiet).effect is Effect.INERT
    assert parameter_effect(trials, "b", quiet).effect is Effect.SEEN


def test_what_trials_have_in_common_is_taken_out() -> None:
    trials = [
        ({"x": 1, "other": "slow"}, 10.0),
        ({"x": 2, "other": "slow"}, 12.0),
        ({"x": 1, "other": "fast"}, 1000.0),
        ({"x": 2, "other": "fast"}, 1200.0),
        ({"x": 3, "other": "alone"}, 5.0),
    ]
    found = parameter_effect(trials, "x", NOISE)
    assert found.effect is Effect.SEEN
    assert found.trials == 4
    assert found.largest == pytest.approx(0.2)


def test_values_that_share_no_trial_are_not_compared_with_each_other() -> None:
    trials = [
        ({"x": 1, "o": "p"}, 100.0),
        ({"x": 2, "o": "p"}, 100.0),
        ({"x": 3, "o": "q"}, 900.0),
        ({"x": 4, "o": "q"}, 900.0),
    ]
    assert parameter_effect(trials, "x", NOISE).largest == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "trials",
    [
        [],
        [({"y": 1}, 5.0)],
        [({"x": 1, "y": 1}, 5.0), ({"x": 2, "y": 2}, 9.0)],
        [({"x": 1}, 5.0), ({"x": 1}, 6.0)],
    ],
)
def test_nothing_to_compare(trials: list[tuple[dict[str, int], float]]) -> None:
    found = parameter_effect(trials, "x", NOISE)
    assert (found.effect, found.largest, found.trials) == (Effect.NOT_COMPARED, None, 0)
    assert "no two trials" in str(found)


def test_no_effect_is_rarely_seen() -> None:
    generator = np.random.default_rng(9)
    seen = 0
    for _ in range(400):
        noise = Noise(float(0.02 * np.sqrt(generator.chisquare(5) / 5)), 5)
        trials = [
            ({"x": x, "y": y}, math.exp(0.1 * y + generator.normal(0, 0.02)))
            for x in range(4)
            for y in range(2)
        ]
        seen += parameter_effect(trials, "x", noise).effect is Effect.SEEN
    assert seen <= 0.05 * 400 + 8


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.floats(1, 100)), max_size=15))
def test_any_trials_have_an_answer(rows: list[tuple[int, int, float]]) -> None:
    found = parameter_effect([({"x": x, "y": y}, v) for x, y, v in rows], "x", NOISE)
    if found.largest is not None and found.possible is not None:
        assert 0 <= found.largest <= found.possible
    assert str(found)

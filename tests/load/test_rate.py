from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.load.rate import (
    Found,
    Measured,
    Outcome,
    RateSearch,
    levels_of,
    next_level,
    search_rate,
)

RATES = RateSearch(low=1.0, high=64.0, noise=0.02)
SLOTS = RateSearch(low=1, high=64, whole=True, noise=0.02)


def engine(limit: float, noise: float = 0.0, seed: int = 0) -> Callable[[float], float]:
    """An engine that meets its gates up to a level; the margin falls as a latency would rise."""
    rng = random.Random(seed)
    return lambda level: (limit - level) / limit + rng.gauss(0, noise)


def test_without_noise_the_limit_is_bracketed() -> None:
    found = search_rate(replace(RATES, noise=1e-9), engine(10.0))
    assert found.level is not None
    assert found.missed is not None
    assert found.level <= 10.0 <= found.missed <= found.level * 1.05
    assert found.measurements <= 12


def test_whole_levels_are_found_exactly() -> None:
    for limit in (1.5, 2.5, 7.5, 33.5, 63.5):
        found = search_rate(replace(SLOTS, noise=1e-9), engine(limit))
        assert (found.level, found.missed) == (math.floor(limit), math.floor(limit) + 1)


def test_all_hold_or_none() -> None:
    assert search_rate(RATES, engine(1000.0)).level == 64.0
    assert search_rate(RATES, engine(1000.0)).missed is None
    found = search_rate(RATES, engine(0.5))
    assert (found.level, found.missed, found.measurements) == (None, 1.0, 1)


def test_a_load_that_cannot_be_finished_is_missed_at_once() -> None:
    found = search_rate(SLOTS, lambda level: 0.5 if level <= 8 else -math.inf)
    assert (found.level, found.missed) == (8, 9)


def test_clear_margins_need_one_measurement_and_near_ones_more() -> None:
    assert next_level(SLOTS, [Measured(1, 0.5)]) == 2
    assert next_level(SLOTS, [Measured(1, 0.03)]) == 1
    assert next_level(SLOTS, [Measured(1, 0.03)] * 4) == 2  # the mean of four is sure enough
    assert levels_of(SLOTS, [Measured(1, 0.01)] * 4)[0].outcome is Outcome.OPEN


def test_what_stays_open_counts_as_missed() -> None:
    found = next_level(SLOTS, [Measured(1, 0.5), *[Measured(2, 0.0)] * 4])
    assert isinstance(found, Found)
    assert (found.level, found.missed) == (1, 2)


def test_noise_that_shows_in_repeats_replaces_a_smaller_assumption() -> None:
    wild = [Measured(1, margin) for margin in (0.4, -0.2, 0.5, -0.1)]
    assert levels_of(SLOTS, wild)[0].outcome is Outcome.OPEN
    calm = [Measured(1, margin) for margin in (0.15, 0.16, 0.15, 0.14)]
    assert levels_of(SLOTS, calm)[0].outcome is Outcome.MET


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
def test_over_many_searches_a_level_that_does_not_hold_is_seldom_taken(noise: float) -> None:
    search = replace(RATES, noise=noise, tolerance=0.1)
    found = [search_rate(search, engine(10.0, noise, seed)) for seed in range(300)]
    wrong = sum(one.level is not None and one.level > 10.0 for one in found)
    assert wrong <= 300 * 0.05
    near = sorted(one.level or 0.0 for one in found)
    assert near[150] > 10.0 * (1 - 2.5 * noise) / 1.1
    assert sum(one.measurements for one in found) / 300 < 20


def test_guesses_without_repeats_are_wrong_more_often() -> None:
    """What the repeats are for: the same search, believing every single margin."""
    naive = replace(RATES, noise=1e-9, repeats=1, tolerance=0.1)
    found = [search_rate(naive, engine(10.0, 0.1, seed)) for seed in range(300)]
    assert sum(one.level is not None and one.level > 10.0 for one in found) > 300 * 0.15


@given(
    st.floats(0.5, 100),
    st.floats(0, 0.2),
    st.integers(0, 999),
    st.booleans(),
)
def test_any_search_ends_with_a_bracket(limit: float, noise: float, seed: int, whole: bool) -> None:  # noqa: FBT001  (Hypothesis gives it)
    search = SLOTS if whole else RATES
    found = search_rate(search, engine(limit, noise, seed))
    assert found.measurements <= search.repeats * 14
    if found.level is not None and found.missed is not None:
        assert found.level < found.missed
    if found.level is None:
        assert found.missed == search.low


def test_the_order_of_measurements_is_no_matter() -> None:
    one = [Measured(1, 0.5), Measured(2, 0.3), Measured(4, -0.4), Measured(3, 0.01)]
    assert next_level(SLOTS, one) == next_level(SLOTS, one[::-1]) == 3


def test_what_is_no_search() -> None:
    for wrong in (
        {"low": 0.0},
        {"low": 65.0},
        {"tolerance": 0.0},
        {"repeats": 0},
        {"confidence": 1.0},
    ):
        with pytest.raises(ValueError, match="must"):
            replace(RATES, **wrong)
    with pytest.raises(ValueError, match="whole"):
        RateSearch(low=1.5, high=2, whole=True)
    with pytest.raises(ValueError, match="no margin"):
        Measured(1, math.nan)

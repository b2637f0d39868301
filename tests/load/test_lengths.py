from __future__ import annotations

import random
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.load.lengths import Bucket, Buckets, Length, Skewed, Uniform, draw, scaled

bounds = st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)).map(lambda b: (b[0], sum(b)))


@given(pair=bounds, log=st.booleans(), seed=st.integers(0, 99))
def test_uniform_lengths_stay_within_their_bounds(
    *, pair: tuple[int, int], log: bool, seed: int
) -> None:
    rng = random.Random(seed)
    assert all(pair[0] <= draw(rng, Uniform(*pair, log=log)) <= pair[1] for _ in range(20))


def test_both_bounds_are_drawn() -> None:
    for log in (False, True):
        rng = random.Random(0)
        assert {draw(rng, Uniform(3, 5, log=log)) for _ in range(200)} == {3, 4, 5}


def test_log_lengths_are_mostly_short() -> None:
    rng = random.Random(0)
    drawn = [draw(rng, Uniform(100, 10_000, log=True)) for _ in range(4000)]
    assert median(drawn) == pytest.approx(1000, rel=0.1)


def test_a_skew_goes_through_its_percentiles() -> None:
    rng = random.Random(0)
    length = Skewed(median=200, p90=1600, low=10, high=10_000)
    drawn = [draw(rng, length) for _ in range(20_000)]
    assert np.percentile(drawn, 50) == pytest.approx(200, rel=0.05)
    assert np.percentile(drawn, 90) == pytest.approx(1600, rel=0.06)
    assert min(drawn) == 10
    assert max(drawn) == 10_000


def test_buckets_are_drawn_by_weight() -> None:
    rng = random.Random(0)
    length = Buckets((Bucket(1, 9, 1.0), Bucket(10, 99, 3.0)))
    drawn = [draw(rng, length) for _ in range(8000)]
    assert sum(one < 10 for one in drawn) / 8000 == pytest.approx(0.25, abs=0.02)
    assert all(1 <= one <= 99 for one in drawn)


@pytest.mark.parametrize(
    ("length", "half"),
    [
        (7, 4),
        (1, 1),
        (Uniform(1, 100, log=True), Uniform(1, 50, log=True)),
        (Skewed(10, 20, 2, 40), Skewed(5, 10, 1, 20)),
        (Buckets((Bucket(8, 16, 2.0, 0.5),)), Buckets((Bucket(4, 8, 2.0, 0.5),))),
    ],
)
def test_scaling(length: Length, half: Length) -> None:
    assert scaled(length, 0.5) == half


def test_a_fixed_length_draws_nothing() -> None:
    rng = random.Random(0)
    before = rng.getstate()
    assert draw(rng, 7) == 7
    assert rng.getstate() == before

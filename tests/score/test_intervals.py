from __future__ import annotations

import numpy as np
import pytest

from tuner.score.distribution import Distribution
from tuner.score.intervals import Intervals


def gather(values: np.ndarray, exact: int, batches: int = 7) -> Distribution:
    intervals = Intervals(exact=exact)
    for batch in np.array_split(values, batches):
        intervals.add(batch)
    found = intervals.distribution()
    assert found is not None
    return found


def test_few_intervals_are_exact() -> None:
    values = np.random.default_rng(1).exponential(0.02, 5000)
    found = gather(values, exact=5000)
    assert found == Distribution.of(values)
    assert found.exact


def test_many_intervals_are_within_a_thousandth() -> None:
    values = np.random.default_rng(2).lognormal(-4, 1.5, 50_000)
    found = gather(values, exact=10_000)
    assert not found.exact
    assert found.count == 50_000
    assert found.mean == pytest.approx(values.mean())
    assert (found.minimum, found.maximum) == (values.min(), values.max())
    for q, p in ((10, found.p10), (50, found.p50), (90, found.p90), (99, found.p99)):
        assert p == pytest.approx(np.percentile(values, q), rel=1.5e-3)


def test_intervals_of_nothing() -> None:
    intervals = Intervals()
    intervals.add(np.array([]))
    assert intervals.distribution() is None


def test_zeros_and_huge_intervals_stay_within_what_was_seen() -> None:
    found = gather(np.array([0.0] * 50 + [1e7] * 50), exact=10)
    assert (found.minimum, found.maximum) == (0.0, 1e7)
    assert found.p10 <= 1.01e-7
    assert found.p90 >= 0.99e6

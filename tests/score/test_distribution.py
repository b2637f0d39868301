from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.score.distribution import Distribution, percentile

FINITE = st.floats(-1e9, 1e9)


@given(st.lists(FINITE, min_size=1, max_size=60), st.floats(0, 100))
def test_percentile_is_linear_between_the_closest_ranks(values: list[float], q: float) -> None:
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    expected = ordered[low] + (ordered[high] - ordered[low]) * (place - low)
    found = percentile(np.array(values), q)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-3)
    assert found == np.percentile(values, q)


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no figures"):
        percentile(np.array([]), 50)


def test_unknown_figures_are_left_out() -> None:
    found = Distribution.of(np.array([np.nan, 3.0, np.inf, 1.0, np.nan]))
    assert found is not None
    assert (found.count, found.mean, found.minimum, found.maximum) == (2, 2.0, 1.0, 3.0)
    assert found.p10 == pytest.approx(1.2)
    assert found.p90 == pytest.approx(2.8)


def test_no_known_figure_has_no_distribution() -> None:
    assert Distribution.of(np.array([np.nan])) is None
    assert Distribution.of(np.array([])) is None


def test_one_figure_is_every_percentile() -> None:
    found = Distribution.of(np.array([7.0]))
    assert found is not None
    assert {found.p10, found.p50, found.p90, found.p99, found.mean} == {7.0}

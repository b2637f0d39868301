from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.fidelity.calibrate import (
    Anchor,
    calibrate,
    left_out,
    left_out_signs,
    typical_error,
)

positive = st.floats(0.1, 1000)
anchors = st.lists(
    st.builds(Anchor, st.sampled_from(["a", "b", "c"]), positive, positive), min_size=2, max_size=9
)


def test_one_layout_has_the_mean_factor() -> None:
    seen = calibrate([Anchor("a", 1, 2), Anchor("a", 1, 8)])
    assert seen.apply("a", 1) == pytest.approx(4)
    assert seen.apply("unknown", 1) == pytest.approx(4)


def test_layouts_that_differ_for_sure_keep_their_own_factor() -> None:
    points = [Anchor("a", x, 2 * x) for x in (1.0, 2.0, 3.0)]
    points += [Anchor("b", x, 0.5 * x) for x in (1.0, 2.0, 3.0)]
    seen = calibrate(points)
    assert seen.apply("a", 10) == pytest.approx(20)
    assert seen.apply("b", 10) == pytest.approx(5)
    assert seen.apply("unknown", 10) == pytest.approx(10)


def test_layouts_that_differ_no_more_than_noise_share_one() -> None:
    points = [
        Anchor("a", 1, 1.00),
        Anchor("a", 1, 1.10),
        Anchor("b", 1, 1.02),
        Anchor("b", 1, 1.06),
    ]
    seen = calibrate(points)
    assert seen.layouts["a"] == pytest.approx(seen.layouts["b"])


def test_shrinkage_by_hand() -> None:
    # Offsets 0 and 0.4 with a noise of 0.2: variance of the means 0.08, less 0.04 of noise, so each
    # of the two keeps half of its distance to the common 0.2.
    points = [Anchor("a", 1, 1), Anchor("b", 1, math.exp(0.4))]
    seen = calibrate(points, sigma=0.2)
    assert seen.common == pytest.approx(0.2)
    assert seen.layouts == {"a": pytest.approx(0.1), "b": pytest.approx(0.3)}


@given(anchors)
def test_a_factor_lies_between_its_layouts_own_and_the_common_one(points: list[Anchor]) -> None:
    seen = calibrate(points, sigma=0.02)
    for layout, factor in seen.layouts.items():
        own = float(np.mean([a.offset for a in points if a.layout == layout]))
        low, high = sorted((own, seen.common))
        assert low - 1e-9 <= factor <= high + 1e-9


@given(anchors, st.floats(0.5, 20))
def test_the_unit_of_the_proxy_does_not_matter(points: list[Anchor], scale: float) -> None:
    other = [Anchor(a.layout, a.predicted * scale, a.measured) for a in points]
    assert left_out(points, 0.02) == pytest.approx(left_out(other, 0.02), rel=1e-6)


def test_left_out_has_not_seen_its_own_anchor() -> None:
    points = [Anchor("a", 1, 1), Anchor("a", 1, 1), Anchor("a", 1, 100)]
    assert left_out(points)[2] == pytest.approx(1)
    assert left_out(points)[0] == pytest.approx(10)


def test_ties_of_the_proxy_stay_ties() -> None:
    points = [Anchor("a", 5, 1), Anchor("a", 5, 2), Anchor("a", 5, 3)]
    assert not left_out_signs(points).any()
    # Predictions that each leave out their own point would turn the order round instead.
    assert (np.diff(left_out(points)) < 0).all()


def test_pairs_across_layouts_are_ordered_by_what_others_showed() -> None:
    points = [Anchor("a", x, 2 * x) for x in (1.0, 2.0, 4.0)]
    points += [Anchor("b", x, x) for x in (1.0, 2.0, 4.0)]
    order = left_out_signs(points)
    assert order[1, 4] == 1  # raw predictions tie; the factor of layout a is higher
    assert order[0, 2] == -1


@given(anchors)
def test_the_signs_are_antisymmetric(points: list[Anchor]) -> None:
    found = left_out_signs(points, 0.02)
    assert (found == -found.T).all()


def test_the_typical_error_is_that_of_left_out_predictions() -> None:
    points = [Anchor("a", 1, 1), Anchor("a", 1, 1.1)]
    assert typical_error(points) == pytest.approx((0.1 + 0.1 / 1.1) / 2)


def test_nothing_cannot_be_calibrated() -> None:
    with pytest.raises(ValueError, match="at least one"):
        calibrate([])

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from tuner.fidelity.assess import Assessment, Limits, assess, noise, tau_interval
from tuner.fidelity.calibrate import Anchor

LIMITS = Limits()
REAL = [10.0, 12.0, 15.0, 19.0, 24.0, 30.0, 38.0]


def judged(
    points: list[Anchor],
    sigma: float | None = 0.01,
    limits: Limits = LIMITS,
    ended: Sequence[Anchor] = (),
) -> Assessment:
    layouts, counts = {a.layout for a in points} | {"a"}, [1] * len(points)
    return assess(points, counts, sigma=sigma, layouts=layouts, limits=limits, ended=ended)


def proxy(values: list[float], layouts: str = "a") -> list[Anchor]:
    names = layouts * len(REAL)
    return [Anchor(names[i], v, REAL[i]) for i, v in enumerate(values)]


def test_a_good_proxy_has_earned_it() -> None:
    found = judged(proxy([v * 3 for v in REAL]))
    assert found.standing == "earned"
    assert (found.tau, found.regret, found.pairs) == (1, 0, 21)
    assert found.p is not None
    assert found.p < 0.001
    assert found.error == pytest.approx(0, abs=1e-12)
    assert found.top_3 == 1


def test_an_inverted_proxy_is_wrong() -> None:
    found = judged(proxy([1 / v for v in REAL]))
    assert (found.standing, found.tau) == ("wrong", -1)
    assert "tau-b" in found.why


def test_a_tied_proxy_is_unproven() -> None:
    found = judged(proxy([5.0] * 7))
    assert found.standing == "unproven"
    assert "apart" in found.why


def test_a_proxy_that_tells_only_layouts_apart_is_unproven() -> None:
    found = judged(proxy([1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0], "abc"))
    assert "fewer than 4" in found.why


def test_a_good_order_with_a_bad_choice_is_wrong() -> None:
    # Only the two best are turned round: tau-b is 0.9, and the choice loses a fifth.
    found = judged(proxy([*REAL[:5], 39.0, 31.0]))
    assert found.tau == pytest.approx(19 / 21)
    assert found.standing == "wrong"
    assert "below the best" in found.why


@pytest.mark.parametrize(
    ("sigma", "reason"), [(None, "measured twice"), (0.9, "differ by more than the noise")]
)
def test_without_known_noise_or_beyond_it_nothing_is_shown(
    sigma: float | None, reason: str
) -> None:
    found = judged(proxy(REAL), sigma)
    assert found.standing == "unproven"
    assert reason in found.why


def test_every_layout_needs_an_anchor() -> None:
    found = judged([Anchor("b", v, v) for v in REAL])
    assert found.why == "no anchor covers the layout a"


def test_few_anchors_show_nothing() -> None:
    assert judged(proxy(REAL)[:5]).why == "5 of at least 6 anchors were measured"


def test_chance_is_not_enough() -> None:
    found = judged(proxy(REAL), limits=Limits(p=1e-6))
    assert found.standing == "unproven"
    assert "chance" in found.why


def test_a_factor_between_layouts_is_mended() -> None:
    layouts = "aabb" * 2
    points = [
        Anchor(layouts[i], v * (3 if layouts[i] == "a" else 1), v) for i, v in enumerate(REAL)
    ]
    assert judged(points).standing == "earned"


def test_what_was_ended_early_counts_in_the_pairs_that_it_is_surely_below() -> None:
    points = proxy([v * 3 for v in REAL])
    alone = judged(points)
    # It is below 25: below 30 and 38 for sure, and nobody knows how it stands to the others.
    right = judged(points, ended=[Anchor("a", 20.0 * 3, 25.0)])
    assert (right.tau, right.pairs, right.points) == (1, alone.pairs + 2, alone.points)
    assert (right.regret, right.error) == (alone.regret, alone.error)
    # One of which it said most, in a layout that no anchor covers too.
    for layout in "ab":
        wrong = judged(points, ended=[Anchor(layout, 50.0 * 3, 25.0)])
        assert wrong.tau == pytest.approx(19 / 23)
    worse = judged(points, ended=[Anchor("a", 50.0 * 3, 11.0), Anchor("a", 60.0 * 3, 11.0)])
    assert worse.pairs == alone.pairs + 12  # and never one with the other
    assert worse.standing == "wrong"
    blurred = judged(points, 0.1, ended=[Anchor("a", 50.0 * 3, 29.0)])
    assert blurred.pairs == judged(points, 0.1).pairs  # nothing is above it beyond the noise


def test_noise_is_pooled_over_repeats() -> None:
    assert noise({"a": [1.0], "b": [2.0]}) is None
    found = noise({"a": [1.0, math.exp(0.1)], "b": [5.0, 5.0], "c": [3.0]})
    assert found == pytest.approx(math.sqrt(0.005 / 2))


def test_the_interval_holds_the_value() -> None:
    points = proxy([10, 13, 12, 20, 19, 33, 30])
    found = tau_interval(points, [1] * 7, 0.01)
    assert found is not None
    assert found.low <= judged(points).tau <= found.high

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tuner.fidelity.rank import informative_pairs, tau_b
from tuner.fidelity.significance import Indices, bootstrap, one_sided_p


def swapped(count: int, times: int) -> list[int]:
    """The order 0..n-1 with so many neighbours turned round: as many discordant pairs."""
    order = list(range(count))
    for i in range(times):
        order[2 * i], order[2 * i + 1] = order[2 * i + 1], order[2 * i]
    return order


@pytest.mark.parametrize(
    ("count", "discordant", "expected"),
    # By Mahonian numbers: (1 + 4) / 5!, (1 + 5) / 6!, (1 + 7 + 27) / 8!.
    [(5, 1, 5 / 120), (6, 1, 6 / 720), (8, 2, 35 / 40320)],
)
def test_exact_p_by_hand(count: int, discordant: int, expected: float) -> None:
    found = one_sided_p(range(count), swapped(count, discordant))
    assert found.method == "exact"
    assert found.value == pytest.approx(expected)


@given(st.permutations(range(9)))
def test_exact_p_is_scipys(order: list[int]) -> None:
    theirs = stats.kendalltau(range(9), order, alternative="greater", method="exact").pvalue
    assert one_sided_p(range(9), order).value == pytest.approx(theirs)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=3, max_size=6), st.randoms())
def test_counting_and_going_through_all_orders_agree(proxy: list[int], random: object) -> None:
    real = list(range(len(proxy)))
    everything = informative_pairs(real, 0.0)
    counted, listed = one_sided_p(real, proxy), one_sided_p(real, proxy, everything)
    assert counted.value == pytest.approx(listed.value)


def test_ties_on_both_sides_by_hand() -> None:
    # 1 1 2 against 1 1 2: C - D = 2 when the 2 meets the 2, in one order of three.
    assert one_sided_p([1, 1, 2], [1, 1, 2]).value == pytest.approx(1 / 3)


def test_a_proxy_that_is_tied_throughout_proves_nothing() -> None:
    assert one_sided_p([1, 2, 3, 4], [7, 7, 7, 7]).value == 1


def test_drawn_orders_come_near_the_exact_value() -> None:
    order = [3, 0, 1, 6, 5, 2, 4, 9, 7, 8]
    exact = one_sided_p(range(10), order)
    drawn = one_sided_p(range(10), order, informative_pairs(list(range(10)), 0.0))
    assert (exact.method, drawn.method) == ("exact", "sampled")
    assert drawn.value == pytest.approx(exact.value, rel=0.2)


@pytest.mark.slow
def test_a_drawn_p_is_never_zero() -> None:
    many = list(range(70))
    found = one_sided_p(many, many)
    assert found.method == "sampled"
    assert 0 < found.value < 1e-4


def test_bootstrap_holds_the_value_and_is_repeatable() -> None:
    random = np.random.default_rng(3)
    real = np.arange(14.0)
    proxy = real + random.normal(0, 3, 14)

    def tau(draw: Indices) -> float:
        return tau_b(real[draw], proxy[draw]).value

    first, again = bootstrap(tau, 14, resamples=300), bootstrap(tau, 14, resamples=300)
    assert first is not None
    assert first == again
    assert first.low < tau_b(real, proxy).value < first.high


def test_bootstrap_of_what_is_rarely_defined_is_none() -> None:
    assert bootstrap(lambda draw: 1.0 if draw[0] == 0 else None, 10, resamples=200) is None


def test_bootstrap_refuses_nan() -> None:
    with pytest.raises(ValueError, match="None, not NaN"):
        bootstrap(lambda _: math.nan, 4, resamples=10)


def test_bootstrap_covers_as_often_as_it_says() -> None:
    random = np.random.default_rng(11)
    covered = 0
    for seed in range(60):
        sample = random.normal(5, 1, 25)
        found = bootstrap(
            lambda draw, s=sample: float(s[draw].mean()),  # type: ignore[misc]
            25,
            resamples=200,
            seed=seed,
        )
        assert found is not None
        covered += found.low <= 5 <= found.high
    assert 50 <= covered <= 60

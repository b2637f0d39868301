from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tuner.fidelity.rank import (
    informative_pairs,
    levels,
    pair_agreement,
    selection_regret,
    signs,
    tau_b,
    top_k_overlap,
)

# A surface of twelve cells, five of whose pairs are tied, as in the study that started all this:
# there the isolated profile found every cell infeasible.
TWELVE = [2.56, 2.56, 2.56, 1.9, 1.9, 1.8, 1.7, 1.7, 1.5, 1.4, 1.2, 1.0007]
few = st.lists(st.integers(0, 5), min_size=2, max_size=7)


def paired(low: int = 2, high: int = 12) -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=low, max_size=high)


def test_tau_b_by_hand() -> None:
    # Pairs of 1 2 3 4 against 1 3 2 4: five agree, one does not.
    found = tau_b([1, 2, 3, 4], [1, 3, 2, 4])
    assert (found.concordant, found.discordant, found.pairs) == (5, 1, 6)
    assert found.value == pytest.approx(4 / 6)
    assert found.ceiling == 1


def test_tau_b_with_ties_by_hand() -> None:
    # 1 1 2 3 against 1 2 2 3: n0 = 6, one tie each side, C = 4, D = 0.
    found = tau_b([1, 1, 2, 3], [1, 2, 2, 3])
    assert (found.concordant, found.tied_real, found.tied_proxy) == (4, 1, 1)
    assert found.value == pytest.approx(4 / 5)


@given(paired())
def test_tau_b_is_scipys(pairs: list[tuple[int, int]]) -> None:
    real, proxy = zip(*pairs, strict=True)
    theirs = stats.kendalltau(real, proxy).statistic
    assert tau_b(real, proxy).value == pytest.approx(0 if math.isnan(theirs) else theirs)


def test_all_tied_counts_as_zero() -> None:
    found = tau_b(TWELVE, [0.0] * 12)
    assert (found.value, found.ceiling, found.tied_proxy) == (0, 0, 66)


@pytest.mark.parametrize(("groups", "highest"), [(3, 0.853), (2, 0.739)])
def test_ties_cap_what_a_proxy_can_reach(groups: int, highest: float) -> None:
    proxy = [i * groups // 12 for i in range(12)]
    assert tau_b(range(12), proxy).ceiling == pytest.approx(highest, abs=5e-4)


@given(few, st.data())
def test_the_ceiling_is_the_best_of_all_arrangements(real: list[int], data: st.DataObject) -> None:
    proxy = data.draw(st.lists(st.integers(0, 3), min_size=len(real), max_size=len(real)))
    best = max(tau_b(real, p).value for p in set(itertools.permutations(proxy)))
    assert tau_b(real, proxy).ceiling == pytest.approx(best)


@given(paired())
def test_the_sign_turns_with_the_proxy(pairs: list[tuple[int, int]]) -> None:
    real, proxy = zip(*pairs, strict=True)
    turned = tau_b(real, [-p for p in proxy])
    assert turned.value == pytest.approx(-tau_b(real, proxy).value)


def test_a_mask_leaves_pairs_out() -> None:
    # 10 and 10.1 are one value under a noise of 1; the proxy turns just these two round.
    real, proxy = [10, 10.1, 20, 30], [2, 1, 3, 4]
    mask = informative_pairs(real, 1.0)
    assert tau_b(real, proxy).value == pytest.approx(4 / 6)
    assert tau_b(real, proxy, mask).value == 1
    assert tau_b(real, proxy, mask).pairs == 5


def test_informative_is_beyond_two_deviations_of_the_difference() -> None:
    edge = 2 * math.sqrt(2)
    assert not informative_pairs([0, edge * 0.999], 1.0)[0, 1]
    assert informative_pairs([0, edge * 1.001], 1.0)[0, 1]
    # Four repeats each halve the deviation, and with it the limit.
    assert informative_pairs([0, edge * 0.51], np.array([0.5, 0.5]))[0, 1]
    assert informative_pairs([0.0, 1e-9], 0.0)[0, 1]
    assert not informative_pairs([1.0, 1.0], 0.0).any()


def test_regret_of_a_tie_is_that_of_its_worst() -> None:
    found = selection_regret(TWELVE, [0.0] * 12)
    assert found.worst == pytest.approx(0.6091, abs=5e-5)
    assert found.best == 0
    assert len(found.chosen) == 12


def test_regret_by_hand() -> None:
    found = selection_regret([100, 80, 60], [1, 5, 2])
    assert found.worst == pytest.approx(0.2)
    assert found.chosen == (1,)
    near = selection_regret([100, 80, 60], [4.9, 5, 2], within=0.05)
    assert near.worst == pytest.approx(0.2)
    assert (near.best, near.chosen) == (0, (0, 1))


def test_regret_where_lower_is_better() -> None:
    # Latencies of 10, 12 and 20 s: taking 12 costs a fifth of the best.
    found = selection_regret([-10, -12, -20], [1, 2, 0])
    assert found.worst == pytest.approx(0.2)


def test_regret_of_a_best_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="that is 0"):
        selection_regret([0, -1], [1, 2])


@given(paired())
def test_regret_is_none_for_a_perfect_proxy(pairs: list[tuple[int, int]]) -> None:
    real = [a + 1 for a, _ in pairs]
    assert selection_regret(real, real).worst == 0


def test_the_pair_signs_of_a_twelve_way_tie() -> None:
    found = pair_agreement(TWELVE, [0.0] * 12)
    assert (found.right, found.pairs) == (5, 66)
    assert found.rate == pytest.approx(0.0758, abs=5e-5)
    # Only pairs that differ are informative, so there a tie is never right.
    assert pair_agreement(TWELVE, [0.0] * 12, informative_pairs(TWELVE, 0.0)).rate == 0


def test_no_pairs_is_no_rate() -> None:
    assert pair_agreement([1.0, 1.0], [2.0, 3.0], informative_pairs([1.0, 1.0], 0.5)).rate is None


def test_top_k_by_hand() -> None:
    assert top_k_overlap([5, 4, 3, 2, 1], [5, 3, 4, 2, 1], 2) == 0.5
    assert top_k_overlap([5, 4, 3, 2, 1], [5, 3, 4, 2, 1], 3) == 1
    assert top_k_overlap([5, 4, 3, 2, 1], [0] * 5, 2) == 0
    assert top_k_overlap([5, 4, 3, 2, 1], [0] * 5, 4) == pytest.approx(3 / 4)


@given(few, st.data())
def test_top_k_is_the_smallest_that_ties_allow(real: list[int], data: st.DataObject) -> None:
    size = len(real)
    proxy = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    k = data.draw(st.integers(1, size))
    smallest = min(len(a & b) for a in _tops(real, k) for b in _tops(proxy, k))
    assert top_k_overlap(real, proxy, k) == pytest.approx(smallest / k)


def _tops(values: list[int], k: int) -> list[set[int]]:
    """All sets of k points of which none is below a point outside."""
    points = range(len(values))
    return [
        set(some)
        for some in itertools.combinations(points, k)
        if min(values[i] for i in some)
        >= max((values[i] for i in points if i not in some), default=-1)
    ]


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf, 0.0]])
def test_what_cannot_be_ranked_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        signs(bad)
    with pytest.raises(ValueError, match="finite"):
        levels(bad)


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 real values and 3"):
        tau_b([1, 2], [1, 2, 3])


def test_levels_counts_different_values() -> None:
    assert levels([1, 1, 2, 3, 3]) == 3

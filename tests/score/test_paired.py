from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.score.paired import ABBA, Arm, Finding, Run, compare

SIGMA = 0.02


def measured(
    generator: np.random.Generator,
    blocks: int,
    effect: float = 0.0,
    drift: float = 0.0,
    sigma: float = SIGMA,
) -> list[Run]:
    runs = []
    for index, arm in enumerate(ABBA * blocks):
        level = drift * index + sigma * generator.standard_normal()
        level += effect if arm is Arm.CANDIDATE else 0.0
        runs.append(Run(arm, 500 * math.exp(level)))
    return runs


def exact(values: list[float]) -> list[Run]:
    return [Run(ABBA[i % 4], value) for i, value in enumerate(values)]


def test_ratio_is_that_of_the_geometric_means() -> None:
    found = compare(exact([100, 110, 120, 90, 100, 115, 105, 95]))
    candidate = math.sqrt(math.sqrt(110 * 120 * 115 * 105))
    baseline = math.sqrt(math.sqrt(100 * 90 * 100 * 95))
    assert found.ratio == pytest.approx(candidate / baseline)
    assert (found.runs, found.df) == (8, 4)


@given(effect=st.floats(-0.5, 0.5), drift=st.floats(-0.1, 0.1), blocks=st.integers(1, 4))
def test_a_steady_drift_cancels(effect: float, drift: float, blocks: int) -> None:
    found = compare(measured(np.random.default_rng(0), blocks, effect, drift, sigma=0.0))
    assert found.ratio == pytest.approx(math.exp(effect))
    assert found.low == pytest.approx(found.high, rel=1e-6)
    assert found.drift.change == pytest.approx(math.expm1(drift * (4 * blocks - 1)), abs=1e-9)


def test_equal_runs_have_no_winner() -> None:
    found = compare(exact([123.456] * 12))
    assert found.finding is Finding.NO_CLEAR_WINNER
    assert not found.drift.clear


@pytest.mark.parametrize("drift", [0.0, -0.01])
def test_interval_holds_the_truth_as_often_as_it_says(drift: float) -> None:
    generator = np.random.default_rng(5)
    studies = 2000
    inside = 0
    for _ in range(studies):
        found = compare(measured(generator, 2, effect=0.05, drift=drift))
        inside += found.low <= math.exp(0.05) <= found.high
    assert inside / studies == pytest.approx(0.95, abs=0.015)


def test_lower_is_better_for_times() -> None:
    runs = measured(np.random.default_rng(1), 4, effect=-0.2)
    assert compare(runs, better="lower").finding is Finding.BETTER
    assert compare(runs, better="higher").finding is Finding.WORSE


def test_drift_of_the_baseline_is_told() -> None:
    found = compare(measured(np.random.default_rng(2), 4, drift=-0.02)).drift
    assert found.clear
    assert found.change == pytest.approx(math.expm1(-0.3), abs=0.05)
    single = compare(measured(np.random.default_rng(2), 1)).drift
    assert (single.low, single.high, single.clear) == (None, None, False)


def test_a_last_block_that_was_cut_short_counts_for_what_it_is() -> None:
    runs = measured(np.random.default_rng(3), 3, effect=0.05)
    whole, cut = compare(runs), compare(runs[:10])
    assert (whole.runs, cut.runs) == (12, 10)
    assert cut.df < whole.df
    assert cut.ratio == pytest.approx(whole.ratio, rel=0.05)


def test_one_block_has_a_wide_interval() -> None:
    one, many = (compare(measured(np.random.default_rng(4), n, effect=0.05)) for n in (1, 5))
    assert one.df == 1
    assert one.high / one.low > many.high / many.low


def test_text_for_people() -> None:
    found = compare(measured(np.random.default_rng(1), 6, effect=0.05))
    assert str(found).endswith("%), better")
    assert "95 % interval" in str(found)


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        (exact([1, 2, 3]), "block of 4"),
        ([Run(Arm.BASELINE, 1.0)] * 4, "A-B-B-A"),
        (exact([1, 2, 0, 3]), "above 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(runs: list[Run], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        compare(runs)

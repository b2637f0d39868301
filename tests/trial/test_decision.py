from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from tests.trial.factory import trial
from tuner.store.rows import Origin, TrialRow
from tuner.trial.decision import decide


def study(base: Sequence[float | None], finalist: Sequence[float | None]) -> list[TrialRow]:
    rows = [trial(0, origin=Origin.BASELINE, score=100.0), trial(5, score=200.0)]
    for block, (a, b) in enumerate(zip(base, finalist, strict=True)):
        rows.append(trial(10 + 2 * block, origin=Origin.REPEAT, repeats=0, block=block, score=a))
        rows.append(trial(11 + 2 * block, origin=Origin.REPEAT, repeats=5, block=block, score=b))
    return rows


def test_the_interval_is_the_paired_t_interval_of_the_log_ratio() -> None:
    base, other = [100.0, 104.0, 98.0], [150.0, 149.0, 160.0]
    found = decide(study(base, other), [5])
    logs = np.log(np.array(other) / np.array(base))
    low, high = stats.t.interval(0.95, 2, loc=logs.mean(), scale=stats.sem(logs))
    assert found.comparisons[0].ratio == pytest.approx(np.exp(logs.mean()))
    assert found.comparisons[0].low == pytest.approx(np.exp(low))
    assert found.comparisons[0].high == pytest.approx(np.exp(high))
    assert (found.winner, found.clear) == (5, True)
    assert found.drift == pytest.approx(0.98)


def test_what_the_search_measured_does_not_count() -> None:
    found = decide(study([100.0, 101.0], [100.5, 100.2]), [5])
    assert not found.clear
    assert found.winner == 0  # though the search had scored it at twice the baseline


@pytest.mark.parametrize(
    ("base", "other"),
    [([None, None], [1.0, 2.0]), ([100.0], [200.0]), ([100.0, None], [200.0, 210.0])],
)
def test_fewer_than_two_whole_pairs_prove_nothing(
    base: list[float | None], other: list[float | None]
) -> None:
    found = decide(study(base, other), [5])
    assert (found.winner, found.clear) == (0, False)


def test_without_finalists_the_baseline_stands() -> None:
    found = decide([trial(3, origin=Origin.BASELINE)], [])
    assert (found.baseline, found.winner, found.clear, found.comparisons) == (3, 3, False, ())

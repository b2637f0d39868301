from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tuner.score.noise import Noise, informative_pairs, noise, pooled_noise


def test_noise_is_the_spread_of_the_logarithms() -> None:
    found = noise([100.0, 102.0, 98.0])
    assert found.df == 2
    assert found.sigma == pytest.approx(float(np.std(np.log([100, 102, 98]), ddof=1)))


def test_groups_share_their_noise_and_not_their_levels() -> None:
    found = pooled_noise([[100.0, 102.0], [1000.0, 1020.0], [7.0]])
    assert found.df == 2
    assert found.sigma == pytest.approx(math.log(1.02) / math.sqrt(2))


@pytest.mark.parametrize("groups", [[], [[1.0]], [[1.0], [2.0]]])
def test_single_measurements_say_nothing_about_noise(groups: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="two measurements"):
        pooled_noise(groups)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_measurements_must_be_above_nothing(bad: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        noise([1.0, bad])


def test_interval_holds_the_true_noise_as_often_as_it_says() -> None:
    generator = np.random.default_rng(3)
    inside = 0
    for _ in range(2000):
        low, high = noise(np.exp(generator.normal(0, 0.05, 4)).tolist()).interval(0.9)
        inside += low <= 0.05 <= high
    assert inside / 2000 == pytest.approx(0.9, abs=0.02)


def test_bound_is_students() -> None:
    found = Noise(sigma=0.02, df=3)
    assert found.bound(0.05, 4) == pytest.approx(stats.t.ppf(0.95, 3) * 0.01)
    assert found.bound(0.05, 2, 2) == pytest.approx(stats.t.ppf(0.95, 3) * 0.02)


def test_informative_pairs() -> None:
    found = list(informative_pairs({"a": 100.0, "b": 103.0, "c": 110.0}, Noise(0.02, 5)))
    assert found == [("c", "a"), ("c", "b")]


def test_variants_that_take_the_same_path_differ_by_noise_only(worklog: dict[str, Any]) -> None:
    rows = {f"{r['impl']} {r['tiny_max']}": r for r in worklog["moe_variants"]["rows"]}
    inert = [rows[name]["output_tps"] for name in worklog["moe_variants"]["inert"]]
    of = noise(inert)
    assert 0.005 < of.sigma < 0.015
    pairs = list(informative_pairs({n: r["output_tps"] for n, r in rows.items()}, of))
    assert {high for high, _ in pairs} == {"bmm 8"}

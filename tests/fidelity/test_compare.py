from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from tests.fidelity.tables import CELLS, REAL, rule, source, surface, table
from tuner.errors import UserError
from tuner.fidelity.compare import Answer, Comparison, Criterion, compare
from tuner.fidelity.table import RawTable

RULE = source("rule.yaml")


def judged(
    proxy: Sequence[float | None], real: Sequence[float | None] | None = None, **changes: object
) -> Comparison:
    real_table = surface("real", list(REAL) if real is None else real)
    return compare(surface("proxy", proxy), real_table, rule(**changes), RULE)


def criterion(found: Comparison, name: str) -> Criterion:
    return next(c for c in found.criteria if c.name == name)


def test_a_perfect_proxy_is_supported() -> None:
    found = judged([10 * v for v in REAL])
    assert found.answer is Answer.SUPPORTED
    assert found.figures is not None
    assert found.figures.tau.value == 1
    assert found.figures.loss == 0


def test_twelve_infeasible_cells_are_one_tie_and_rejected() -> None:
    found = judged([0.0] * 12)
    assert found.answer is Answer.REJECTED
    assert found.figures is not None
    assert found.figures.tau_all.value == 0
    assert found.figures.signs_all.rate == pytest.approx(0.0758, abs=5e-5)
    assert found.figures.loss == pytest.approx(0.6091, abs=5e-5)
    assert len(found.figures.regret.chosen) == 12
    assert {c.name for c in found.criteria if c.outcome == "failed"} == {"tau_b", "regret"}


def test_a_good_order_with_a_bad_choice_is_rejected() -> None:
    # Everything is in order but the worst cell, which the proxy holds for the best.
    proxy = list(REAL)
    proxy[REAL.index(1.0007)] = 99.0
    found = judged(proxy, require={"tau_b": 0.6})
    assert found.answer is Answer.REJECTED
    assert criterion(found, "tau_b").outcome == "met"
    assert criterion(found, "regret").outcome == "failed"


def test_an_inverted_proxy_is_rejected() -> None:
    found = judged([-v for v in REAL])
    assert found.answer is Answer.REJECTED
    assert found.figures is not None
    assert found.figures.tau.value == -1


def test_lower_is_better() -> None:
    latencies: list[float | None] = [1 / v for v in REAL]
    found = judged([2 * v for v in latencies if v], latencies, better="lower")
    assert found.answer is Answer.SUPPORTED
    assert found.figures is not None
    assert dict(found.pairing.keys[found.figures.regret.chosen[0]]) == {"tp": "2", "mns": "32"}


def test_noise_larger_than_the_surface_decides_nothing() -> None:
    found = judged([-v for v in REAL], noise=0.6)
    assert found.answer is Answer.INDETERMINATE
    assert criterion(found, "pairs").outcome == "open"
    assert "noise alone" in criterion(found, "regret").why


def test_unknown_noise_decides_nothing() -> None:
    found = judged([-v for v in REAL], noise="repeats")
    assert found.answer is Answer.INDETERMINATE
    assert "no configuration was measured twice" in found.why[0]


def test_noise_is_taken_from_repeats() -> None:
    real = table("real", [{"x": x, "value": 10 * x * f} for x in range(1, 9) for f in (0.99, 1.01)])
    proxy = table("proxy", [{"x": float(x), "value": x} for x in range(1, 9)])
    found = compare(proxy, real, rule(noise="repeats"), RULE)
    # Two repeats at 1 - e and 1 + e have a deviation of e * sqrt(2).
    assert found.pairing.sigma == pytest.approx(0.01 * math.sqrt(2))
    assert found.answer is Answer.SUPPORTED


def test_a_proxy_of_two_values_is_indeterminate_and_not_wrong() -> None:
    # It knows TP alone, and ranks what it knows rightly: nothing of it can reach 0.8.
    real: list[float | None] = [1.0, 1.1, 1.2, 1.3, 2.0, 2.001, 2.002, 2.003, 1.4, 1.5, 1.6, 1.7]
    found = judged([1.0] * 4 + [2.0] * 4 + [1.0] * 4, real, noise=0.001)
    tau = criterion(found, "tau_b")
    assert tau.outcome == "open"
    assert found.answer is Answer.INDETERMINATE


def test_too_few_levels_is_indeterminate() -> None:
    found = judged([10 * v for v in REAL], require={"levels": 40})
    assert found.answer is Answer.INDETERMINATE
    assert "different values" in found.why[0]


def test_choosing_what_does_not_run_loses_everything() -> None:
    real: list[float | None] = [*REAL[:-1], None]
    found = judged([*REAL[:-1], 99.0], real)
    assert found.figures is not None
    assert found.figures.loss == 1
    assert found.answer is Answer.REJECTED
    assert len(found.pairing.dead) == 1


def test_the_best_may_be_one_that_the_proxy_does_not_know() -> None:
    proxy: list[float | None] = list(REAL)
    best = CELLS.index((2, 32))
    proxy[best] = None
    found = judged(proxy)
    assert found.figures is not None
    assert found.figures.loss == pytest.approx(1 - 2.5405 / 2.56)
    assert found.answer is Answer.SUPPORTED
    twice = list(REAL)
    twice[best] = 5.12
    worse = judged(proxy, list(twice))
    assert criterion(worse, "regret").outcome == "failed"


def test_optional_criteria() -> None:
    asked = {"pair_signs": 0.9, "top_k": {"k": 2, "overlap": 1.0}}
    found = judged([10 * v for v in REAL], require=asked)
    assert found.answer is Answer.SUPPORTED
    assert found.figures is not None
    assert set(found.figures.top_k) == {2, 3}
    assert judged([-v for v in REAL], require=asked).answer is Answer.REJECTED
    many = judged([10 * v for v in REAL], require={"top_k": {"k": 13, "overlap": 1.0}})
    assert many.answer is Answer.INDETERMINATE


def test_one_configuration_in_common_decides_nothing() -> None:
    one = table("a", [{"x": 1, "value": 3}, {"x": 2, "value": 3}])
    other = table("b", [{"x": 1, "value": 3}, {"x": 5, "value": 3}])
    found = compare(one, other, rule(), RULE)
    assert found.answer is Answer.INDETERMINATE
    assert found.figures is None
    assert found.pairing.only == 2


def tables_without_common_columns() -> tuple[RawTable, RawTable]:
    return table("a", [{"x": 1, "value": 3}]), table("b", [{"y": 1, "value": 3}])


def test_tables_that_share_nothing_are_a_mistake() -> None:
    with pytest.raises(UserError, match="share no column"):
        compare(*tables_without_common_columns(), rule(), RULE)
    with pytest.raises(UserError, match="no configuration is in both"):
        compare(
            table("a", [{"x": 1, "value": 3}]), table("b", [{"x": 2, "value": 3}]), rule(), RULE
        )


def test_a_surface_of_zeros_is_a_mistake() -> None:
    with pytest.raises(UserError, match="other than 0"):
        judged(list(REAL), [0.0] * 12)


def test_a_rule_younger_than_a_table_is_told() -> None:
    found = compare(surface("p", list(REAL)), surface("r", list(REAL)), rule(), source("rule", 2))
    assert not found.rule_first
    assert judged(list(REAL)).rule_first

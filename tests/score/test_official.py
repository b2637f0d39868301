from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tuner.load.record import ErrorClass, Record
from tuner.score.attribution import shares
from tuner.score.measure import measure
from tuner.score.metrics import Metrics
from tuner.score.official import MODULE, PUBLISHED, PUBLISHED_OVER_MODULE, module_score, weighted

PRINTED = 6e-6  # the platform prints five decimals


def platform_metrics(run: dict[str, Any], records: list[Record]) -> Metrics:
    """Metrics of a platform run, its cached tokens spread over the successes to the logged total."""
    cached = run["cached_tokens"]
    spread = []
    for record in records:
        share = min(cached, record.prompt_tokens or 0) if record.ok else None
        cached -= share or 0
        spread.append(replace(record, cached_tokens=share))
    assert cached == 0
    wall = 60 * run["output_tokens"] / run["output_tpm"]
    assert wall == pytest.approx(run["wall_s"], abs=0.005)
    return measure(spread, wall_s=wall)


def counted(name: str, records: list[Record]) -> list[Record]:
    """The records that the platform counted: run 694 ended while its request 682 was under way."""
    if name != "694":
        return records
    late = next(r for r in records if r.session == 682)
    unsent = replace(late, end=None, output_tokens=None, error=ErrorClass.CANCELLED)
    return [unsent if r is late else r for r in records]


@pytest.mark.parametrize("name", ["655", "694"])
def test_platform_runs_to_the_printed_digits(
    name: str,
    platform_runs: dict[str, dict[str, Any]],
    platform_requests: dict[str, list[Record]],
) -> None:
    run = platform_runs[name]
    found = platform_metrics(run, counted(name, platform_requests[name]))
    assert (found.planned, found.succeeded) == (881, run["succeeded"])
    assert (found.prompt_tokens, found.output_tokens) == (run["input_tokens"], run["output_tokens"])
    assert found.uncached_input_tps is not None
    assert found.cached_tps is not None
    assert 60 * found.uncached_input_tps == pytest.approx(run["uncached_input_tpm"], abs=1e-5)
    assert 60 * found.cached_tps == pytest.approx(run["cached_tpm"], abs=1e-5)
    assert module_score(found) == pytest.approx(run["module_score"], abs=PRINTED)
    assert weighted(found) == pytest.approx(run["published"], abs=0.06)
    assert found.request_output_tps is not None
    assert found.request_output_tps.p10 == pytest.approx(run["output_tps_p10"], abs=PRINTED)
    assert found.cache_hit_rate == pytest.approx(run["cache_hit_rate"], abs=6e-5)


@pytest.mark.parametrize("name", ["655", "694"])
def test_module_score_from_the_logged_rates(
    name: str, platform_runs: dict[str, dict[str, Any]]
) -> None:
    run = platform_runs[name]
    rates = (run["output_tpm"], run["uncached_input_tpm"], run["cached_tpm"])
    assert MODULE.apply(*rates) == pytest.approx(run["module_score"], abs=PRINTED)
    assert PUBLISHED.apply(*rates) / 60 == pytest.approx(run["published"], abs=0.06)


def test_p10_of_694_with_the_request_that_ended_late(
    platform_requests: dict[str, list[Record]],
) -> None:
    found = measure(platform_requests["694"], wall_s=46800.04).request_output_tps
    assert found is not None
    assert found.count == 643
    assert found.p10 == pytest.approx(1.95928, abs=PRINTED)


def test_run_168_within_its_wall_time(platform_runs: dict[str, dict[str, Any]]) -> None:
    run = platform_runs["168"]
    low, high = (
        60 * MODULE.apply(run["output_tokens"], run["input_tokens"], 0) / (run["wall_s"] + off)
        for off in (run["wall_s_within"], -run["wall_s_within"])
    )
    assert low < run["module_score"] < high
    assert run["module_score"] * PUBLISHED_OVER_MODULE == pytest.approx(run["published"], abs=0.06)


@pytest.mark.parametrize("name", ["655", "694"])
def test_published_form_follows_from_the_module_score(
    name: str, platform_runs: dict[str, dict[str, Any]]
) -> None:
    run = platform_runs[name]
    rates = (run["output_tpm"] / 60, run["uncached_input_tpm"] / 60, run["cached_tpm"] / 60)
    published = PUBLISHED.apply(*rates)
    assert published == pytest.approx(run["module_score"] * PUBLISHED_OVER_MODULE, rel=3e-4)


def test_worklog_rows_within_the_rounding_of_their_inputs(worklog: dict[str, Any]) -> None:
    half = 0.0005
    rounding = PUBLISHED.apply(half, half, half) + half
    for row in worklog["rows"]:
        found = PUBLISHED.apply(row["output_tps"], row["uncached_input_tps"], row["cached_tps"])
        assert found == pytest.approx(row["weighted"], abs=rounding)
        hit = row["cached_tps"] / (row["cached_tps"] + row["uncached_input_tps"])
        assert hit == pytest.approx(row["cache_hit_rate"], abs=6e-5)


@pytest.mark.parametrize("name", ["655", "694"])
def test_shares_of_the_platform_runs(
    name: str,
    platform_runs: dict[str, dict[str, Any]],
    platform_requests: dict[str, list[Record]],
) -> None:
    run = platform_runs[name]
    found = shares(platform_metrics(run, counted(name, platform_requests[name])))
    assert found is not None
    assert found.output == pytest.approx(run["shares"]["output"], abs=6e-4)
    assert found.uncached_input == pytest.approx(run["shares"]["uncached_input"], abs=6e-4)
    assert found.cached == pytest.approx(run["shares"]["cached"], abs=6e-4)


def test_a_missing_rate_leaves_the_score_unknown(
    platform_requests: dict[str, list[Record]],
) -> None:
    found = measure(platform_requests["655"], wall_s=10412.19)
    assert found.output_tps == pytest.approx(121078 / 10412.19)
    assert (weighted(found), module_score(found)) == (None, None)
    assert "cached" in found.unmeasured["cached_tps"]

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.load.record import ErrorClass, Record
from tuner.score.attribution import gains, shares, wall_time
from tuner.score.measure import measure
from tuner.score.official import weighted

Make = Callable[..., Record]
REQUEST = st.tuples(st.integers(0, 3000), st.integers(1, 3000), st.integers(2, 200))


def one_by_one(
    requests: list[tuple[int, int, int]], prefill_tps: float, decode_tps: float
) -> list[Record]:
    """Requests one after another on an engine of two rates: (cached, uncached, output) tokens."""
    records, clock = [], 0.0
    for cached, uncached, output in requests:
        first = clock + uncached / prefill_tps
        end = first + (output - 1) / decode_tps
        records.append(
            Record(
                workload="w",
                session=0,
                turn=0,
                scheduled=clock,
                sent=clock,
                first_token=first,
                end=end,
                prompt_tokens=cached + uncached,
                cached_tokens=cached,
                output_tokens=output,
            )
        )
        clock = end
    return records


def score(records: list[Record]) -> float:
    found = weighted(measure(records))
    assert found is not None
    return found


@given(st.lists(REQUEST, min_size=1, max_size=12))
def test_gains_are_exact_one_request_at_a_time(requests: list[tuple[int, int, int]]) -> None:
    records = one_by_one(requests, 500.0, 20.0)
    before = score(records)
    metrics, time = measure(records), wall_time(records, measure(records))
    assert time is not None
    assert time.prefill + time.decode + time.lost + time.idle == pytest.approx(1)
    found = gains(metrics, time)
    assert found is not None
    faster_prefill = score(one_by_one(requests, 550.0, 20.0))
    faster_decode = score(one_by_one(requests, 500.0, 22.0))
    assert found.prefill == pytest.approx(faster_prefill / before - 1, abs=1e-9)
    assert found.decode == pytest.approx(faster_decode / before - 1, abs=1e-9)


def test_gain_of_cache_moves_tokens_and_time() -> None:
    before = [(1000, 2000, 50)] * 5
    after = [(1100, 1900, 50)] * 5
    records = one_by_one(before, 500.0, 20.0)
    time = wall_time(records, measure(records))
    assert time is not None
    found = gains(measure(records), time)
    assert found is not None
    expected = score(one_by_one(after, 500.0, 20.0)) / score(records) - 1
    assert found.cache == pytest.approx(expected)


def test_more_cache_can_cost_score_where_prefill_is_cheap() -> None:
    records = one_by_one([(5000, 5000, 200)], 1e6, 10.0)
    time = wall_time(records, measure(records))
    assert time is not None
    found = gains(measure(records), time)
    assert found is not None
    assert found.cache < 0


def test_shares_add_up(make_record: Make) -> None:
    found = shares(measure([make_record(prompt=1000, cached=200, output=11)]))
    assert found is not None
    assert found.output + found.uncached_input + found.cached == pytest.approx(1)
    total = 16.796 * 11 + 2.799 * 800 + 0.56 * 200
    assert found.output == pytest.approx(16.796 * 11 / total)


def test_lost_and_idle_time_are_told(make_record: Make, make_failure: Make) -> None:
    records = [
        make_record(0.0, ttft=1.0, step=0.1, output=11),  # 0 to 2
        make_failure(ErrorClass.TIMEOUT, at=1.0, seconds=3.0),  # 1 to 4
        make_record(6.0, ttft=1.0, step=0.1, output=11),  # 6 to 8
    ]
    found = wall_time(records, measure(records))
    assert found is not None
    assert found.idle == pytest.approx(0.25)
    assert found.prefill == pytest.approx(0.75 * 2 / 7)
    assert found.lost == pytest.approx(0.75 * 3 / 7)


def test_nothing_to_attribute(make_record: Make) -> None:
    nothing = measure([])
    assert shares(nothing) is None
    assert wall_time([], nothing) is None
    unknown = [make_record(cached=None)]
    metrics = measure(unknown)
    assert shares(metrics) is None
    time = wall_time(unknown, metrics)
    assert time is not None
    assert gains(metrics, time) is None

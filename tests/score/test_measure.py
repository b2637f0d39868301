from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.load.record import ErrorClass, Record
from tuner.score.goodput import Limits
from tuner.score.measure import measure

Make = Callable[..., Record]


def test_one_request_by_hand(make_record: Make) -> None:
    found = measure([make_record(2.0, ttft=1.0, step=0.1, prompt=1000, cached=200, output=11)])
    assert (found.planned, found.attempted, found.succeeded) == (1, 1, 1)
    assert found.wall_s == pytest.approx(2.0)
    assert found.output_tps == pytest.approx(5.5)
    assert found.uncached_input_tps == pytest.approx(400)
    assert found.cached_tps == pytest.approx(100)
    assert found.cache_hit_rate == pytest.approx(0.2)
    for distribution, expected in (
        (found.ttft_s, 1.0),
        (found.e2e_s, 2.0),
        (found.tpot_s, 0.1),
        (found.itl_s, 0.1),
        (found.request_output_tps, 5.5),  # 11 tokens over 2 s, the wait included
        (found.request_decode_tps, 10.0),  # 10 tokens over the 1 s after the first
    ):
        assert distribution is not None
        assert distribution.p50 == pytest.approx(expected)
    assert found.itl_s is not None
    assert found.itl_s.count == 10
    assert not found.faults


def test_nothing_was_planned() -> None:
    found = measure([])
    assert (found.planned, found.success_rate, found.output_tps) == (0, None, None)
    assert found.ttft_s is None
    assert found.unmeasured["success_rate"] == "no request was planned"
    assert "no times" in found.unmeasured["wall_s"]


def test_all_failed(make_failure: Make) -> None:
    found = measure([make_failure(ErrorClass.HTTP_4XX, at=i, seconds=0.5) for i in range(4)])
    assert (found.success_rate, found.output_tps, found.prompt_tokens) == (0.0, 0.0, 0)
    assert found.cache_hit_rate is None
    assert found.ttft_s is None
    assert found.unmeasured["ttft_s"] == "no request succeeded"
    assert found.error_classes == {"http_4xx": 4}


def test_failures_add_no_tokens_and_no_latency(make_record: Make, make_failure: Make) -> None:
    good = make_record(0.0)
    aborted = replace(make_record(0.0, ttft=9.0), error=ErrorClass.STREAM_ABORTED)
    found = measure([good, aborted, make_failure(ErrorClass.CONNECT)])
    assert found.success_rate == pytest.approx(1 / 3)
    assert found.output_tokens == 11
    assert found.ttft_s is not None
    assert found.ttft_s.count == 1
    assert found.itl_s is not None
    assert found.itl_s.count == 10
    assert found.wall_s == pytest.approx(10.0)  # the failure's time is wall time all the same


def test_requests_never_sent_count_as_planned(make_record: Make, make_failure: Make) -> None:
    records = [make_record(0.0), make_failure(ErrorClass.NOT_SENT)]
    found = measure(records, planned=4)
    assert (found.planned, found.attempted) == (4, 1)
    assert (found.success_rate, found.attempted_success_rate) == (0.25, 1.0)


def test_more_records_than_planned_is_refused(make_record: Make) -> None:
    with pytest.raises(ValueError, match="2 records of 1"):
        measure([make_record(), make_record()], planned=1)


def test_clock_that_runs_backwards_is_flagged_and_makes_no_latency(make_record: Make) -> None:
    good = make_record(0.0, ttft=1.0)
    faulty = replace(make_record(5.0), first_token=4.0)
    chunks = make_record(7.0)
    swapped = replace(chunks, chunk_times=(chunks.chunk_times[1], chunks.chunk_times[0]))
    found = measure([good, faulty, swapped])
    assert found.faults == {"clock_backwards": 2}
    assert found.succeeded == 3
    assert found.output_tokens == 33
    assert found.ttft_s is not None
    assert (found.ttft_s.count, found.ttft_s.maximum) == (1, 1.0)
    assert found.itl_s is not None
    assert found.itl_s.count == 10


def test_only_backward_clocks_leave_everything_with_time_unknown(make_record: Make) -> None:
    found = measure([replace(make_record(5.0), end=1.0)])
    assert (found.wall_s, found.output_tps, found.ttft_s) == (None, None, None)
    assert "backwards" in found.unmeasured["output_tps"]
    assert "backwards" in found.unmeasured["ttft_s"]


def test_wall_time_begins_when_the_first_request_was_due(make_record: Make) -> None:
    assert measure([make_record(1.0, scheduled=0.0, ttft=1.0)]).wall_s == pytest.approx(3.0)


@pytest.mark.parametrize("wall", [0.0, -1.0, float("nan")])
def test_a_wall_time_that_is_none_is_said(make_record: Make, wall: float) -> None:
    found = measure([make_record()], wall_s=wall)
    assert found.output_tps is None
    assert "not positive" in found.unmeasured["output_tps"]


class TestCachedTokens:
    def test_none_said_anywhere_is_unknown(self, make_record: Make) -> None:
        found = measure([make_record(cached=None), make_record(cached=None)])
        assert (found.cached_tokens, found.uncached_tokens, found.cache_hit_rate) == (None,) * 3
        assert "--enable-prompt-tokens-details" in found.unmeasured["cached_tps"]
        assert found.output_tps is not None

    def test_none_is_zero_where_another_said_a_number(self, make_record: Make) -> None:
        found = measure([make_record(cached=None), make_record(cached=500)])
        assert (found.cached_tokens, found.uncached_tokens) == (500, 1500)

    def test_none_is_zero_where_the_server_is_known_to_report(self, make_record: Make) -> None:
        found = measure([make_record(cached=None)], cached_reported=True)
        assert (found.cached_tokens, found.cache_hit_rate) == (0, 0.0)

    def test_more_cached_than_prompt_is_flagged_and_held_to_the_prompt(
        self, make_record: Make
    ) -> None:
        found = measure([make_record(prompt=10, cached=15)])
        assert found.faults == {"cached_over_prompt": 1}
        assert (found.cached_tokens, found.uncached_tokens) == (10, 0)


def test_success_without_counts_is_flagged(make_record: Make) -> None:
    found = measure([make_record(), make_record(output=1, output_tokens=None)])
    assert found.faults == {"success_without_token_counts": 1}
    assert found.output_tokens == 11


def test_answer_of_one_token_has_no_decode_rate(make_record: Make) -> None:
    found = measure([make_record(output=1)])
    assert (found.tpot_s, found.request_decode_tps, found.itl_s) == (None, None, None)
    assert "two tokens or more" in found.unmeasured["request_decode_tps"]
    assert found.request_output_tps is not None


def test_latency_from_when_it_was_due(make_record: Make) -> None:
    late = make_record(5.0, ttft=1.0, scheduled=2.0)
    from_send, from_due = measure([late]), measure([late], since="scheduled")
    assert from_send.ttft_s is not None
    assert from_send.ttft_s.p50 == pytest.approx(1.0)
    assert from_due.ttft_s is not None
    assert from_due.ttft_s.p50 == pytest.approx(4.0)
    assert from_due.send_lag_s is not None
    assert from_due.send_lag_s.maximum == pytest.approx(3.0)


def test_the_wait_of_an_open_loop_is_in_all_that_a_request_took(make_record: Make) -> None:
    late = make_record(5.0, ttft=1.0, scheduled=2.0)  # sent 3 s late, over 2 s later, 11 tokens
    limits = Limits(ttft_s=2.0)
    from_send = measure([late], limits=limits, wall_s=10)
    from_due = measure([late], since="scheduled", limits=limits, wall_s=10)
    assert from_send.request_output_tps is not None
    assert from_send.request_output_tps.p50 == pytest.approx(11 / 2)
    assert from_due.request_output_tps is not None
    assert from_due.request_output_tps.p50 == pytest.approx(11 / 5)
    assert from_send.goodput is not None
    assert from_due.goodput is not None
    assert (from_send.goodput.count, from_due.goodput.count) == (1, 0)
    assert from_send.tpot_s == from_due.tpot_s
    assert from_send.output_tps == from_due.output_tps


def test_repeated_answers_and_reasons(make_record: Make) -> None:
    digests = ["a" * 64, "a" * 64, "b" * 64, None]
    records = [make_record(answer_digest=d) for d in digests]
    records.append(make_record(finish_reason="length"))
    found = measure(records)
    assert found.repeated_answer_rate == pytest.approx(1 / 3)
    assert found.finish_reasons == {"stop": 4, "length": 1}
    assert found.repetition_rate is None


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100),  # sent
            st.floats(0.001, 10),  # TTFT
            st.floats(0.0001, 1),  # step
            st.integers(2, 30),  # output tokens
            st.booleans(),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_aggregates_agree_with_numpy(rows: list[tuple[float, float, float, int, bool]]) -> None:
    records = []
    for at, ttft, step, output, ok in rows:
        times = tuple(at + ttft + step * i for i in range(output))
        records.append(
            Record(
                workload="w",
                session=0,
                turn=0,
                scheduled=at,
                sent=at,
                first_token=times[0],
                end=times[-1],
                chunk_times=times,
                prompt_tokens=100,
                cached_tokens=30,
                output_tokens=output,
                error=None if ok else ErrorClass.TIMEOUT,
            )
        )
    found = measure(records)
    good = [r for r in records if r.ok]
    assert found.success_rate == len(good) / len(records)
    if not good:
        assert found.ttft_s is None
        return
    e2e = np.array([(r.end or 0) - (r.sent or 0) for r in good])
    tokens = np.array([r.output_tokens or 0 for r in good])
    assert found.request_output_tps is not None
    assert found.request_output_tps.p10 == pytest.approx(float(np.percentile(tokens / e2e, 10)))
    steps = np.concatenate([np.diff(r.chunk_times) for r in good])
    assert found.itl_s is not None
    assert found.itl_s.p99 == pytest.approx(float(np.percentile(steps, 99)), rel=1e-6)
    wall = max(r.end or 0 for r in records) - min(r.sent or 0 for r in records)
    assert found.output_tps == pytest.approx(tokens.sum() / wall)

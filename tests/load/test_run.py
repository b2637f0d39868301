from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.load.conftest import Mock, plan_of, turn
from tuner.load.endpoint import Endpoint
from tuner.load.plan import Closed, Message, Open, Plan, Session, Tool, Turn
from tuner.load.record import ErrorClass, Record
from tuner.load.run import STOPPED, TIMED_OUT, drive, run_load
from tuner.load.salt import reference_salt, salt_of

SALT = "trial 1"
FRONT = salt_of(SALT, "test")  # what stands in front of the plan's conversations


def test_a_success_carries_what_the_server_counted(mock: Mock) -> None:
    details = turn("hello", chunks=6, tokens_per_chunk=3, reasoning=2)
    result = run_load(plan_of([details]), mock.endpoint, salt=SALT)
    (record,) = result.records
    (served,) = mock.requests()
    assert record.ok
    assert record.error is None
    assert record.status == 200
    assert len(record.chunk_times) == 6
    assert record.output_tokens == 18  # by usage, not by chunks
    assert record.reasoning_tokens == 2
    assert record.prompt_tokens == served["prompt_tokens"]
    assert record.cached_tokens == 0
    assert record.finish_reason == "length"
    assert record.first_token == record.chunk_times[0]
    assert record.sent is not None
    assert record.end is not None
    assert record.scheduled <= record.sent < record.chunk_times[0] <= record.end
    assert result.wall_s == record.end
    assert result.complete
    assert result.ended_early is None


def test_stamps_lie_between_emission_and_now(mock: Mock) -> None:
    plan = plan_of(*[[turn(ttft_s=0.05, itl_s=0.01, chunks=10)] for _ in range(4)])
    result = run_load(plan, mock.endpoint, salt=SALT)
    emitted = sorted(at for served in mock.requests() for at in served["emitted"])
    seen = sorted(at + result.zero for record in result.records for at in record.chunk_times)
    assert len(seen) == len(emitted) == 40
    assert all(one <= other for one, other in zip(emitted, seen, strict=True))


@pytest.mark.parametrize(
    ("mock_fields", "error", "status"),
    [
        ({"fail": "refuse"}, ErrorClass.HTTP_4XX, 400),
        ({"fail": "broken"}, ErrorClass.HTTP_5XX, 500),
        ({"fail": "error", "fail_after": 3}, ErrorClass.STREAM_ERROR, 200),
        ({"fail": "abort", "fail_after": 3}, ErrorClass.STREAM_ABORTED, 200),
        ({"fail": "no_done"}, ErrorClass.STREAM_ABORTED, 200),
        ({"fail": "no_usage"}, ErrorClass.NO_USAGE, 200),
        ({"fail": "malformed"}, ErrorClass.MALFORMED, 200),
        ({"fail": "silent"}, ErrorClass.TIMEOUT, None),
    ],
)
def test_each_failure_has_its_class_and_is_sent_once(
    mock: Mock, mock_fields: dict[str, Any], error: ErrorClass, status: int | None
) -> None:
    plan = plan_of([turn(**mock_fields)], request_timeout_s=0.3)
    result = run_load(plan, mock.endpoint, salt=SALT)
    (record,) = result.records
    assert record.error is error
    assert record.status == status
    assert not record.ok
    assert record.detail
    assert record.answer_digest is None
    assert record.end is not None
    assert len(mock.requests()) == 1


def test_the_chunks_before_a_failure_are_kept(mock: Mock) -> None:
    result = run_load(plan_of([turn(fail="abort", fail_after=3)]), mock.endpoint, salt=SALT)
    (record,) = result.records
    assert len(record.chunk_times) == 3
    assert record.output_tokens is None


def test_the_servers_words_are_in_the_detail(mock: Mock) -> None:
    result = run_load(plan_of([turn(fail="refuse")]), mock.endpoint, salt=SALT)
    assert result.records[0].detail == "maximum context length is 16 tokens"


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        endpoint = Endpoint(model="llm", port=taken.getsockname()[1])
        result = run_load(plan_of([turn(), turn()], [turn()]), endpoint, salt=SALT)
    assert [record.error for record in result.records] == [ErrorClass.CONNECT] * 3
    assert all(record.sent is None for record in result.records)


@pytest.mark.parametrize(
    "mock_fields", [{"split": 1}, {"split": 7, "crlf": True}, {"comments": True}]
)
def test_the_framing_of_the_stream_is_no_matter(mock: Mock, mock_fields: dict[str, Any]) -> None:
    plan = plan_of([turn(chunks=8)], [turn(chunks=8, **mock_fields)])
    plain, framed = run_load(plan, mock.endpoint, salt=SALT).records
    assert framed.ok
    assert len(framed.chunk_times) == 8
    assert framed.answer_digest == plain.answer_digest


def test_answers_are_threaded_into_the_conversation(mock: Mock) -> None:
    run_load(plan_of([turn("one", chunks=2), turn("two", chunks=2)]), mock.endpoint, salt=SALT)
    first, second = mock.requests()
    assert first["messages"] == [{"role": "user", "content": FRONT + "one"}]
    assert second["messages"] == [
        {"role": "user", "content": FRONT + "one"},
        {"role": "assistant", "content": "w0 w1 "},
        {"role": "user", "content": "two"},
    ]
    assert second["cached_tokens"] > 0


def test_tool_calls_are_threaded_with_results(mock: Mock) -> None:
    run_load(plan_of([turn(chunks=3, tools=3), turn()]), mock.endpoint, salt=SALT)
    _, asked, result, _ = mock.requests()[1]["messages"]
    assert asked["content"] == ""
    (call,) = asked["tool_calls"]
    assert call["id"] == "call_1"
    assert call["function"]["name"] == "look"
    assert json.loads(call["function"]["arguments"]) == {"x": [0, 1, 1]}
    assert result == {"role": "tool", "content": "ok", "tool_call_id": "call_1"}


def test_after_a_failed_turn_the_conversation_goes_on(mock: Mock) -> None:
    plan = plan_of([turn("one", fail="error"), turn("two")])
    first, second = run_load(plan, mock.endpoint, salt=SALT).records
    assert first.error is ErrorClass.STREAM_ERROR
    assert second.ok
    roles = [message["role"] for message in mock.requests()[1]["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_unthreaded_plans_send_their_own_messages_only(mock: Mock) -> None:
    run_load(plan_of([turn("one"), turn("two")], thread_answers=False), mock.endpoint, salt=SALT)
    roles = [message["role"] for message in mock.requests()[1]["messages"]]
    assert roles == ["user", "user"]


def test_concurrency_is_what_was_asked_for_and_connections_are_used_again(mock: Mock) -> None:
    plan = plan_of(*[[turn(ttft_s=0.02), turn(ttft_s=0.02)] for _ in range(9)], concurrency=3)
    assert run_load(plan, mock.endpoint, salt=SALT).complete
    log = mock.log()
    assert log["peak"] == 3
    assert log["connections"] <= 4  # the reader of the log has one


def test_another_salt_meets_a_cold_cache_and_the_same_salt_a_warm_one(mock: Mock) -> None:
    plan = plan_of([turn("x" * 500)])
    first, other, again = [
        run_load(plan, mock.endpoint, salt=salt).records[0].cached_tokens
        for salt in ("a", "b", "a")
    ]
    assert first == 0
    assert other == len("<|im_start|>user")  # what the template writes before the salt
    assert again is not None
    assert again > 450


def test_a_tool_carries_the_salt_too_for_templates_that_put_tools_first(mock: Mock) -> None:
    tool = Tool("look", "Looks.", '{"type": "object", "properties": {"q": {"type": "string"}}}')
    session = Session((turn("x" * 400),), tools=(tool, tool))
    plan = Plan(workload="test", seed=0, sessions=(session,), pacing=Closed(1))
    for name in ("a", "b"):
        (record,) = run_load(plan, mock.endpoint, salt=name).records
        assert record.ok
        assert record.cached_tokens is not None
        assert record.cached_tokens < len(
            reference_salt()
        )  # no more than what the template itself writes
    fields = mock.requests()[0]["fields"]
    assert fields["tool_choice"] == "none"
    assert fields["tools"][0]["function"]["name"].endswith("_look")
    assert len(fields["tools"][0]["function"]["name"]) <= 64
    assert fields["tools"][1]["function"]["name"] == "look"


def test_sampling_fields_win_over_the_clients_own(mock: Mock) -> None:
    fields = '{"temperature": 0.5, "stream_options": {"include_usage": true, "x": 1}}'
    one = Turn((Message("user", "a"),), max_tokens=4, sampling=fields)
    run_load(plan_of([one]), mock.endpoint, salt=SALT)
    sent = mock.requests()[0]["fields"]
    assert sent["temperature"] == 0.5
    assert sent["stream_options"] == {"include_usage": True, "x": 1}
    assert sent["max_tokens"] == 4


def test_images_keep_their_parts_and_the_salt_is_in_front(mock: Mock) -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    one = Turn((Message("user", json.dumps(parts), parts=True),), max_tokens=1)
    run_load(plan_of([one]), mock.endpoint, salt=SALT)
    sent = mock.requests()[0]["messages"][0]["content"]
    assert sent == [{"type": "text", "text": FRONT}, *parts]


def test_each_conversation_may_have_a_salt_of_its_own(mock: Mock) -> None:
    long = [turn("x" * 200)]
    shared, apart = plan_of(long, long, concurrency=1), plan_of(long, long, salt_each=True)
    assert run_load(shared, mock.endpoint, salt="a").records[1].cached_tokens == 288
    records = run_load(apart, mock.endpoint, salt="b").records
    assert [record.cached_tokens for record in records] == [16, 16]


def test_without_salt_a_second_load_meets_a_warm_cache(mock: Mock) -> None:
    plan = plan_of([turn("x" * 200)], salt_words=0)
    run_load(plan, mock.endpoint, salt="a")
    (record,) = run_load(plan, mock.endpoint, salt="b").records
    assert mock.requests()[0]["messages"] == [{"role": "user", "content": "x" * 200}]
    assert record.cached_tokens == 240


def test_two_workloads_of_one_trial_do_not_warm_each_other(mock: Mock) -> None:
    plan = plan_of([turn("x" * 200)])
    run_load(plan, mock.endpoint, salt="a")
    (record,) = run_load(replace(plan, workload="other"), mock.endpoint, salt="a").records
    assert record.cached_tokens == 16


def open_plan(*arrivals: float, **mock_fields: Any) -> Plan:
    sessions = tuple(
        Session(
            (Turn(turn(**mock_fields).messages, 8, turn(**mock_fields).sampling, arrival_s=at),)
        )
        for at in arrivals
    )
    return Plan(workload="test", seed=0, sessions=sessions, pacing=Open())


def test_open_loop_sends_on_time_however_slow_the_server(mock: Mock) -> None:
    arrivals = [0.02 * i for i in range(10)]
    result = run_load(open_plan(*arrivals, ttft_s=0.4, chunks=1), mock.endpoint, salt=SALT)
    assert [record.scheduled for record in result.records] == arrivals
    for record in result.records:
        assert record.sent is not None
        assert record.end is not None
        assert record.scheduled <= record.sent < record.scheduled + 0.2
        assert record.end - record.scheduled >= 0.4
    assert mock.log()["peak"] == 10


def test_an_open_loop_with_a_limit_counts_the_wait(mock: Mock) -> None:
    plan = replace(open_plan(0.0, 0.01, 0.02, ttft_s=0.1, chunks=1), pacing=Open(limit=1))
    records = run_load(plan, mock.endpoint, salt=SALT).records
    assert mock.log()["peak"] == 1
    assert [record.scheduled for record in records] == [0.0, 0.01, 0.02]
    assert records[2].sent is not None
    assert records[2].sent - records[2].scheduled >= 0.17


def test_a_turn_that_waits_for_the_one_before_is_due_at_its_arrival(mock: Mock) -> None:
    slow = turn(ttft_s=0.3, chunks=1)
    turns = tuple(Turn(slow.messages, 8, slow.sampling, arrival_s=at) for at in (0.0, 0.1))
    plan = Plan(workload="test", seed=0, sessions=(Session(turns),), pacing=Open())
    first, second = run_load(plan, mock.endpoint, salt=SALT).records
    assert second.scheduled == 0.1
    assert second.sent is not None
    assert first.end is not None
    assert second.sent >= first.end  # the wait is in end - scheduled and not left out


def test_think_time_stands_between_an_answer_and_the_next_request(mock: Mock) -> None:
    thinking = Turn(turn().messages, 8, think_s=0.15)
    first, second = run_load(plan_of([turn(), thinking]), mock.endpoint, salt=SALT).records
    assert first.end is not None
    assert second.sent is not None
    assert second.scheduled == pytest.approx(first.end + 0.15)
    assert second.sent >= second.scheduled


def test_an_empty_plan(mock: Mock) -> None:
    result = run_load(plan_of(), mock.endpoint, salt=SALT)
    assert result.records == ()
    assert result.wall_s == 0.0
    assert result.complete


def test_stop_cuts_what_runs_and_does_not_send_the_rest(mock: Mock) -> None:
    plan = plan_of(
        [turn(chunks=500, itl_s=0.01), turn()], [turn(fail="silent")], [turn()], concurrency=2
    )
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    result = run_load(plan, mock.endpoint, salt=SALT, stop=stop)
    errors = [record.error for record in result.records]
    cut, unsent = ErrorClass.CANCELLED, ErrorClass.NOT_SENT
    assert errors == [cut, unsent, cut, unsent]
    assert result.ended_early == STOPPED
    assert not result.complete
    assert len(result.records[0].chunk_times) > 3
    assert all(record.scheduled >= 0 for record in result.records)


def test_stop_before_the_start_sends_next_to_nothing(mock: Mock) -> None:
    stop = threading.Event()
    stop.set()
    plan = plan_of(*[[turn(fail="silent")] for _ in range(5)], concurrency=1)
    result = run_load(plan, mock.endpoint, salt=SALT, stop=stop)
    assert result.ended_early == STOPPED
    assert [record.error for record in result.records[1:]] == [ErrorClass.NOT_SENT] * 4


def test_the_load_has_a_time_of_its_own(mock: Mock) -> None:
    plan = plan_of([turn(fail="silent")], [turn()], concurrency=1, load_timeout_s=0.2)
    result = run_load(plan, mock.endpoint, salt=SALT)
    assert result.ended_early == TIMED_OUT
    errors = [record.error for record in result.records]
    assert errors == [ErrorClass.CANCELLED, ErrorClass.NOT_SENT]
    assert result.wall_s == pytest.approx(0.2, abs=0.15)


def test_the_server_dies_in_the_middle(mock: Mock) -> None:
    long = [turn(chunks=50, itl_s=0.01)]
    last = [replace(turn(), think_s=0.3)]
    plan = plan_of(long, long, [turn(chunks=5, itl_s=0.02, fail="exit", fail_after=4)], long, last)
    result = run_load(plan, mock.endpoint, salt=SALT)
    errors = [record.error for record in result.records]
    assert errors == [ErrorClass.STREAM_ABORTED] * 4 + [ErrorClass.CONNECT]
    assert result.ended_early is None  # the plan ran to its end, and all of it failed


def test_each_record_is_given_out_when_its_request_is_over(mock: Mock) -> None:
    seen: list[Record] = []
    plan = plan_of([turn(ttft_s=0.2)], [turn()], [turn(fail="silent")], load_timeout_s=0.5)
    result = run_load(plan, mock.endpoint, salt=SALT, on_record=seen.append)
    assert [record.session for record in seen] == [1, 0, 2]
    assert sorted(seen, key=lambda record: record.session) == list(result.records)


def test_a_defect_in_the_callers_own_function_is_not_hidden(mock: Mock) -> None:
    def broken(record: Record) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        run_load(plan_of([turn()]), mock.endpoint, salt=SALT, on_record=broken)
    assert caught.group_contains(ZeroDivisionError)


def test_a_clock_that_runs_backwards_gives_times_that_do_not(mock: Mock) -> None:
    ticks = iter(range(10**9))

    def clock() -> float:
        tick = next(ticks)
        return 100.0 + tick * 0.001 - (50.0 if tick % 7 == 0 and tick else 0.0)

    (record,) = run_load(plan_of([turn(chunks=20)]), mock.endpoint, salt=SALT, clock=clock).records
    assert record.sent is not None
    assert record.end is not None
    times = [record.scheduled, record.sent, *record.chunk_times, record.end]
    assert times == sorted(times)


def test_a_unix_socket(start_mock: Callable[..., Mock], tmp_path: Any) -> None:
    mock = start_mock("--uds", str(tmp_path / "s"))
    result = run_load(plan_of([turn(), turn()]), mock.endpoint, salt=SALT)
    assert [record.ok for record in result.records] == [True, True]


def test_within_an_event_loop_of_the_callers(mock: Mock) -> None:
    async def both() -> list[bool]:
        stop = asyncio.Event()
        one = drive(plan_of([turn()]), mock.endpoint, salt=SALT, stop=stop)
        two = drive(plan_of([turn()]), mock.endpoint, salt=SALT, stop=stop)
        return [result.complete for result in await asyncio.gather(one, two)]

    assert asyncio.run(both()) == [True, True]


def test_a_cancelled_caller_leaves_nothing_running(mock: Mock) -> None:
    async def cut() -> int:
        task = asyncio.ensure_future(
            drive(plan_of([turn(fail="silent")]), mock.endpoint, salt=SALT)
        )
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(asyncio.all_tasks())

    assert asyncio.run(cut()) == 1


def test_where_latencies_start_is_the_pacings_business(mock: Mock) -> None:
    assert run_load(open_plan(0.0, chunks=1), mock.endpoint, salt=SALT).since == "scheduled"
    assert run_load(plan_of([turn("x")]), mock.endpoint, salt=SALT).since == "sent"


def test_conversations_of_an_open_loop_begin_at_their_time_in_whatever_order_they_stand(
    mock: Mock,
) -> None:
    plan = open_plan(1.2, 0.0, 1.1, chunks=1)
    records = run_load(plan, mock.endpoint, salt=SALT).records
    assert [record.scheduled for record in records] == [1.2, 0.0, 1.1]
    assert all(record.sent is not None and record.sent >= record.scheduled for record in records)
    assert [record.session for record in sorted(records, key=lambda r: r.sent or 0)] == [1, 2, 0]


def test_an_open_loop_that_is_cut_has_its_whole_population(mock: Mock) -> None:
    plan = replace(open_plan(0.0, 30.0, chunks=1), load_timeout_s=0.3)
    result = run_load(plan, mock.endpoint, salt=SALT)
    assert [record.error for record in result.records] == [None, ErrorClass.NOT_SENT]
    assert [record.scheduled for record in result.records] == [0.0, 30.0]

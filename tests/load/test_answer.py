from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.load.answer import Answer, one_line
from tuner.load.record import ErrorClass

USAGE = {"prompt_tokens": 9, "completion_tokens": 4}


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def usage(**more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {**USAGE, **more}}


def fed(*chunks: dict[str, Any] | str, done: bool = True) -> Answer:
    """An answer that was read chunk by chunk, at 0, 1, 2 … seconds."""
    answer = Answer()
    for at, one in enumerate([*chunks, *(["[DONE]"] if done else [])]):
        payload = one if isinstance(one, str) else json.dumps(one)
        answer.feed(f"data: {payload}\n\n".encode(), float(at))
    return answer


ROLE = chunk({"role": "assistant", "content": ""})
END = chunk({}, "stop")


def test_a_whole_answer_is_a_success() -> None:
    answer = fed(ROLE, chunk({"content": "a"}), chunk({"content": "b"}), END, usage())
    assert answer.conclude() is None
    assert answer.text == "ab"
    assert answer.times == [1.0, 2.0]
    assert answer.done_at == 5.0
    assert (answer.prompt_tokens, answer.output_tokens) == (9, 4)
    assert (answer.cached_tokens, answer.reasoning_tokens) == (None, None)


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x", "content": None},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
        {"content": ""},  # a token whose text is not whole yet
        {"role": "assistant", "content": "x"},
    ],
)
def test_what_counts_as_the_first_token(delta: dict[str, Any]) -> None:
    assert fed(ROLE, chunk(delta), END, usage()).times == [1.0]


@pytest.mark.parametrize(
    "other",
    [ROLE, chunk({}), chunk({"content": None}), chunk({"content": ""}, "stop"), usage(), END],
)
def test_what_does_not_count(other: dict[str, Any]) -> None:
    assert fed(other, END, usage()).times == []


def test_content_in_the_last_chunk_counts() -> None:
    answer = fed(ROLE, chunk({"content": "x"}, "length"), usage())
    assert answer.times == [1.0]
    assert answer.finish_reason == "length"


def test_several_tokens_in_a_chunk_are_one_chunk_and_the_usage_counts_them() -> None:
    answer = fed(chunk({"content": "a b c d"}), END, usage())
    assert len(answer.times) == 1
    assert answer.output_tokens == 4


def test_two_chunks_in_one_read_have_the_time_of_the_read() -> None:
    answer = Answer()
    one = json.dumps(chunk({"content": "x"}))
    answer.feed(f"data: {one}\n\ndata: {one}\n\n".encode(), 3.0)
    assert answer.times == [3.0, 3.0]


def test_usage_in_every_chunk_is_read_from_the_last() -> None:
    running = chunk({"content": "x"}, usage={"prompt_tokens": 9, "completion_tokens": 1})
    details = {"prompt_tokens_details": {"cached_tokens": 5}}
    answer = fed(running, END, usage(completion_tokens=2, **details))
    assert (answer.output_tokens, answer.cached_tokens) == (2, 5)


def test_tool_calls_are_put_together() -> None:
    first = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": '{"a"'}}
    rest = {"index": 0, "function": {"arguments": ": 1}"}}
    second = {"index": 1, "id": "c2", "function": {"name": "stop", "arguments": "{}"}}
    answer = fed(chunk({"tool_calls": [first]}), chunk({"tool_calls": [rest, second]}), END)
    assert [vars_of(call) for call in answer.tool_calls.values()] == [
        ("c1", "look", '{"a": 1}'),
        ("c2", "stop", "{}"),
    ]


def vars_of(call: Any) -> tuple[str, str, str]:
    return (call.id, call.name, call.arguments)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fed(ROLE, chunk({"content": "x"}), END, usage(), done=False), ErrorClass.STREAM_ABORTED),
        (fed(done=False), ErrorClass.STREAM_ABORTED),
        (fed(ROLE, chunk({"content": "x"}), END), ErrorClass.NO_USAGE),
        (fed(ROLE, END, {"choices": [], "usage": {"prompt_tokens": 3}}), ErrorClass.NO_USAGE),
        (
            fed(ROLE, END, {"choices": [], "usage": {**USAGE, "prompt_tokens": -1}}),
            ErrorClass.NO_USAGE,
        ),
        (fed(ROLE, chunk({"content": "x"}), usage()), ErrorClass.MALFORMED),
        (fed(ROLE, '{"choices": [', END, usage()), ErrorClass.MALFORMED),
        (fed(ROLE, "[1]", END, usage()), ErrorClass.MALFORMED),
        (fed(ROLE, '{"object": "x"}', END, usage()), ErrorClass.MALFORMED),
        (fed(ROLE, '{"choices": [{"delta": null}]}', END, usage()), ErrorClass.MALFORMED),
        (fed(ROLE, '{"choices": [{"delta": {"content": 7}}]}', END, usage()), ErrorClass.MALFORMED),
        (fed(ROLE, "[" * 100_000, END, usage()), ErrorClass.MALFORMED),
        (fed(ROLE, {"error": {"message": "out of memory"}}, END, usage()), ErrorClass.STREAM_ERROR),
        (fed(ROLE, chunk({}, "abort"), usage()), ErrorClass.STREAM_ERROR),
        (fed(ROLE, chunk({}, "error"), usage()), ErrorClass.STREAM_ERROR),
    ],
)
def test_what_is_not_a_success(answer: Answer, error: ErrorClass) -> None:
    failure = answer.conclude()
    assert failure is not None
    assert failure[0] is error
    assert failure[1]


def test_what_the_server_said_of_an_error_is_kept() -> None:
    failure = fed({"error": {"message": "CUDA out of\nmemory \x1b[31m"}}, END, usage()).conclude()
    assert failure == (ErrorClass.STREAM_ERROR, "CUDA out of memory [31m")


def test_digests_tell_answers_apart() -> None:
    text = fed(chunk({"content": "ab"}))
    assert text.digest == fed(chunk({"content": "a"}), chunk({"content": "b"})).digest
    assert text.digest != fed(chunk({"reasoning": "ab"})).digest
    assert text.digest != fed(chunk({"content": "aB"})).digest


@given(st.binary(max_size=200), st.integers(1, 50))
def test_no_bytes_raise_anything(data: bytes, size: int) -> None:
    answer = Answer()
    for at in range(0, len(data), size):
        answer.feed(data[at : at + size], 0.0)
    assert answer.conclude() is not None


KEYS = [
    *("choices", "delta", "content", "role", "usage", "error", "index", "tool_calls", "function"),
    *("name", "arguments", "finish_reason", "prompt_tokens", "completion_tokens", "reasoning"),
    *("prompt_tokens_details", "cached_tokens"),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


call_like = st.fixed_dictionaries(
    {}, optional={"index": json_values, "id": json_values, "function": json_values}
)
delta_like = st.fixed_dictionaries(
    {},
    optional={
        "content": json_values,
        "reasoning": json_values,
        "role": json_values,
        "tool_calls": json_values | st.lists(call_like, max_size=2),
    },
)
choice_like = st.fixed_dictionaries(
    {"delta": delta_like | json_values},
    optional={"finish_reason": json_values, "index": json_values},
)
chunk_like = st.fixed_dictionaries(
    {"choices": st.lists(choice_like, max_size=2) | json_values},
    optional={"usage": json_values, "error": json_values},
)


@given(st.lists(chunk_like | json_values, max_size=5))
def test_no_json_raises_anything(values: list[Any]) -> None:
    answer = fed(*[json.dumps(value) for value in values])
    answer.conclude()
    assert len(answer.digest) == 64
    assert isinstance(answer.text, str)
    assert answer.output_tokens is None or answer.output_tokens >= 0


@given(st.text())
def test_one_line_is_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert len(line) <= 300
    assert line.isprintable()

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.quality.asking import ProbeFailed, Reply
from tuner.quality.checks import completion, json_beginning, refused, structured


def body(*texts: str, finish: str = "stop", **usage: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, **usage}
    choices = [
        {"index": i, "finish_reason": finish, "message": {"content": text}}
        for i, text in enumerate(texts)
    ]
    return {"choices": choices, "usage": counts}


def test_a_completion_is_taken_apart() -> None:
    given_body = body("a", "b", prompt_tokens_details={"cached_tokens": 2})
    given_body["choices"].reverse()  # servers need not keep an order
    found = completion(Reply(200, given_body), choices=2, most=1)
    assert [choice.text for choice in found.choices] == ["a", "b"]
    assert (found.prompt_tokens, found.output_tokens, found.cached_tokens) == (3, 2, 2)
    assert completion(Reply(200, body("a"))).cached_tokens is None


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(None, said="connection refused"), "no answer: connection refused"),
        (Reply(500, {}, "boom"), "status 500: boom"),
        (Reply(200, None), "lacks what the protocol says"),
        (Reply(200, {"choices": []}), "usage"),
        (Reply(200, body("a", total_tokens=6)), "does not add up"),
        (Reply(200, body("a", prompt_tokens=-3, total_tokens=-1)), "no token counts"),
        (Reply(200, body("a", finish="abort")), "gave up: abort"),
        (Reply(200, body("a", "b")), "2 choices where 1"),
        (Reply(200, body("a", completion_tokens=9, total_tokens=12)), "9 tokens where 4"),
        (Reply(200, {**body("a"), "choices": [{"index": 1}]}), "not numbered"),
    ],
)
def test_what_is_no_completion_is_said(reply: Reply, words: str) -> None:
    with pytest.raises(ProbeFailed, match=words):
        completion(reply, most=4)


@pytest.mark.parametrize("status", [400, 404, 422, 499])
def test_a_refusal_is_a_4xx(status: int) -> None:
    refused(Reply(status), "nonsense")


@pytest.mark.parametrize("status", [None, 200, 500, 503])
def test_nothing_else_is_a_refusal(status: int | None) -> None:
    with pytest.raises(ProbeFailed, match=r"nonsense: .* where a 4xx belongs"):
        refused(Reply(status), "nonsense")


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(max_size=5), _JSON, max_size=4),
    st.sampled_from([False, True]),
    st.data(),
)
def test_every_beginning_of_json_is_one(
    value: dict[str, Any], ascii_only: object, data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=bool(ascii_only))
    assert json_beginning(text[: data.draw(st.integers(0, len(text)))])


@pytest.mark.parametrize(
    "text", ["{]", "}", "{'a': 1}", '{"a" 1', '{"a": nope', '{"a": 1}}', "hello", "1e5x"]
)
def test_what_no_json_begins_with(text: str) -> None:
    assert not json_beginning(text)


def choice(text: str, finish: str) -> Any:
    return completion(Reply(200, body(text, finish=finish))).first


def test_a_whole_answer_must_be_json_and_a_cut_one_its_beginning() -> None:
    assert structured(choice('{"a": [1]}', "stop")) == {"a": [1]}
    assert structured(choice('{"a": [1', "length")) is None
    assert structured(choice("  ", "length")) is None
    for text, finish in (('{"a": [1', "stop"), ("Sure: {", "length"), ("[1, 2", "length")):
        with pytest.raises(ProbeFailed):
            structured(choice(text, finish))


def test_a_heap_of_brackets_is_no_harm() -> None:
    assert not json_beginning("[" * 200_000)

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.load.conftest import Mock, plan_of, turn
from tuner.load.check import Difference, TokenCheck, check_tokens
from tuner.load.plan import Closed, Message, Plan, Session, Turn
from tuner.load.record import Record
from tuner.load.run import LoadResult, run_load
from tuner.load.tokens import ByteTokens, ServerTokens
from tuner.load.workloads.conversations import Conversations, conversations

SHAPE = Conversations(sessions=5, turns=2, system_tokens=100, tools=2, output_tokens=6)


def test_what_a_server_counts_is_what_its_tokenizer_says(mock: Mock) -> None:
    plan = conversations(SHAPE, seed=1, tokens=ByteTokens())
    result = run_load(plan, mock.endpoint, salt="a")
    with ServerTokens(mock.endpoint) as tokens:
        found = check_tokens(plan, result, tokens)
        assert (found.prompts, found.outputs, found.differences) == (5, 10, ())
        assert found.holds
        assert check_tokens(plan, result, tokens, sample=2).prompts == 2


def test_a_server_that_counts_wrong_is_found(mock: Mock) -> None:
    plan = conversations(SHAPE, seed=1, tokens=ByteTokens())
    result = run_load(plan, mock.endpoint, salt="a")
    first = replace(result.records[0], prompt_tokens=7, output_tokens=5)
    wrong = replace(result, records=(first, *result.records[1:]))
    with ServerTokens(mock.endpoint) as tokens:
        found = check_tokens(plan, wrong, tokens)
    assert not found.holds
    assert [(one.what, one.counted) for one in found.differences] == [("prompt", 7), ("output", 5)]
    assert found.differences[1] == Difference(0, 0, "output", 5, 6)


def test_failures_are_not_counted(mock: Mock) -> None:
    plan = plan_of([turn(fail="refuse")], [turn()])
    result = run_load(plan, mock.endpoint, salt="a")

    class Counts:
        def count_chat(self, messages: list[Any], tools: list[Any] | None = None) -> int:
            assert tools is None
            text = messages[0]["content"]
            return len(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")

    found = check_tokens(plan, result, Counts())
    assert (found.prompts, found.outputs, found.holds) == (1, 0, True)


class Never:
    """A tokenizer that must not be asked."""

    def count_chat(self, messages: list[Any], tools: list[Any] | None = None) -> int:
        raise AssertionError((messages, tools))


def test_prompts_with_images_are_not_counted_again() -> None:
    image = Message("user", '[{"type": "image_url", "image_url": {"url": "data:,"}}]', parts=True)
    plan = Plan("w", 0, (Session((Turn((image,)),)),), Closed(1))
    record = Record("w", 0, 0, 0.0, 0.0, 0.1, 0.2, prompt_tokens=900, output_tokens=1)
    result = LoadResult("w", "", "s", (record,), 0.2, 0.0, 0.0, None, 0.0)
    found = check_tokens(plan, result, Never())
    assert (found.prompts, found.holds) == (0, True)


def test_what_was_found_is_said() -> None:
    held = TokenCheck(3, 6, ())
    assert held.words == "3 prompts and 6 answers are as the tokenizer says"
    off = TokenCheck(3, 6, (Difference(1, 0, "output", 9, 6),))
    assert off.words == (
        "1 of 3 prompts and 6 answers are off; conversation 1, turn 0: output 9, not 6"
    )
    assert off.as_json() == {"prompts": 3, "answers": 6, "off": 1, "words": off.words}

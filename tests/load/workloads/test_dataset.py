from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.load.conftest import Mock
from tuner.errors import UserError
from tuner.load.lengths import Uniform
from tuner.load.run import run_load
from tuner.load.tokens import ByteTokens
from tuner.load.workloads.dataset import Dataset, dataset, read_talks, warm_up

TOKENS = ByteTokens()
Write = Callable[[Any], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(content: Any) -> Path:
        path = tmp_path / "talks.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return file


def talk(number: int, exchanges: int = 2) -> dict[str, Any]:
    turns = []
    for index in range(exchanges):
        turns.append({"from": "human", "value": f"question {number}.{index}"})
        turns.append({"from": "gpt", "value": f"answer {number}.{index}!"})
    return {"id": str(number), "conversations": turns}


def test_conversations_are_held_again_with_live_answers(write: Write, mock: Mock) -> None:
    shape = Dataset(write([talk(n) for n in range(5)]), conversations=3)
    plan = dataset(shape, seed=1, tokens=TOKENS)
    assert len(plan.sessions) == 3
    result = run_load(plan, mock.endpoint, salt="a")
    assert result.complete
    assert all(record.ok for record in result.records)
    second = next(one for one in mock.requests() if len(one["messages"]) == 3)
    assert second["messages"][1]["role"] == "assistant"
    assert second["messages"][1]["content"].startswith("w0 ")
    turn = plan.sessions[0].turns[0]
    assert turn.max_tokens == len("answer 0.0!")
    assert json.loads(turn.sampling) == {"temperature": 0.0, "ignore_eos": True}


def test_the_draw_is_the_seeds(write: Write) -> None:
    shape = Dataset(write([talk(n) for n in range(50)]), conversations=10)
    one = dataset(shape, seed=1, tokens=TOKENS)
    assert dataset(shape, seed=1, tokens=TOKENS) == one
    assert dataset(shape, seed=2, tokens=TOKENS) != one
    questions = [session.turns[0].messages[0].content for session in one.sessions]
    assert len(set(questions)) == 10
    assert warm_up(shape, seed=1, tokens=TOKENS, conversations=2).requests == 4


def test_turns_and_lengths_are_limited(write: Write) -> None:
    shape = Dataset(write([talk(n, 6) for n in range(9)]), conversations=9)
    plan = dataset(replace(shape, turns=2, output_tokens=Uniform(3, 5)), seed=1, tokens=TOKENS)
    assert {len(session.turns) for session in plan.sessions} == {2}
    assert {turn.max_tokens for s in plan.sessions for turn in s.turns} == {3, 4, 5}
    plan = dataset(replace(shape, max_prompt_tokens=100), seed=1, tokens=TOKENS)
    assert {len(session.turns) for session in plan.sessions} == {2}  # 48 of salt, then 12 + 11 each
    with pytest.raises(UserError, match="0 can be used"):
        dataset(replace(shape, max_prompt_tokens=50), seed=1, tokens=TOKENS)


def test_odd_entries_are_passed_over(write: Write) -> None:
    other = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "again"},
        {"role": "user", "content": "never reached"},
    ]
    entries = [
        None,
        7,
        {},
        {"conversations": "x"},
        {"conversations": [{"from": "gpt", "value": "begins with an answer"}]},
        {"conversations": [{"from": "human", "value": ""}]},
        {"conversations": [{"from": "human", "value": 3}]},
        {"conversations": ["x"]},
        {"messages": other},
    ]
    (found,) = read_talks(write(entries))
    assert found.system == "s"
    assert found.exchanges == (("q", "a"),)


def test_a_question_without_answer_needs_a_length(write: Write) -> None:
    path = write([{"conversations": [{"from": "human", "value": "q"}]}])
    with pytest.raises(UserError, match="0 can be used"):
        dataset(Dataset(path, conversations=1), seed=1, tokens=TOKENS)
    plan = dataset(Dataset(path, conversations=1, output_tokens=4), seed=1, tokens=TOKENS)
    assert plan.sessions[0].turns[0].max_tokens == 4


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", "[1, 2]", "[" * 200_000])
def test_files_that_are_no_datasets(write: Write, content: str) -> None:
    with pytest.raises(UserError):
        read_talks(write(content))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_talks(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff")
    with pytest.raises(UserError, match="UTF-8"):
        read_talks(tmp_path / "bytes.json")

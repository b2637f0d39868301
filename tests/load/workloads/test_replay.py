from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.load.conftest import Mock
from tuner.errors import UserError
from tuner.load.plan import Closed, Open
from tuner.load.run import run_load
from tuner.load.tokens import ByteTokens
from tuner.load.workloads.replay import Replay, replay
from tuner.load.workloads.trace import read_trace

TOKENS = ByteTokens()
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {}}}

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(*rows: Any, name: str = "trace.jsonl") -> Path:
        path = tmp_path / name
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) + "\n")
        return path

    return file


def test_recorded_requests_are_sent_as_they_were(write: Write, mock: Mock) -> None:
    history: list[dict[str, Any]] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "see"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "look"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "found"},
    ]
    row = {"messages": history, "tools": [TOOL], "max_tokens": 5, "stop": ["x"], "model": "other"}
    plan = replay(Replay(write(row)), seed=0, tokens=TOKENS)
    (record,) = run_load(plan, mock.endpoint, salt="a").records
    assert record.ok
    (served,) = mock.requests()
    system, *rest = served["messages"]
    assert system["content"].endswith("\nbe brief")
    assert rest == [history[1], {**history[2], "content": ""}, history[3]]
    assert served["fields"]["stop"] == ["x"]
    assert served["fields"]["max_tokens"] == 5
    assert served["fields"]["model"] == "llm"
    assert served["fields"]["tool_choice"] == "none"
    assert "ignore_eos" not in served["fields"]  # the length of the answer was not recorded
    assert served["fields"]["tools"][0]["function"]["name"].endswith("_look")


def test_a_recorded_answer_is_asked_for_at_its_length(write: Write) -> None:
    row = {"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 32768}
    recorded, unknown = replay(
        Replay(write({**row, "output_tokens": 7}, row)), seed=0, tokens=TOKENS
    ).sessions
    assert recorded.turns[0].max_tokens == 7
    assert json.loads(recorded.turns[0].sampling)["ignore_eos"] is True
    assert unknown.turns[0].max_tokens == 32768
    assert "ignore_eos" not in json.loads(unknown.turns[0].sampling)


def test_a_tool_that_is_asked_for_by_name_keeps_its_name(write: Write, mock: Mock) -> None:
    choice = {"type": "function", "function": {"name": "look"}}
    row = {"messages": [{"role": "user", "content": "a"}], "tools": [TOOL], "tool_choice": choice}
    run_load(replay(Replay(write(row)), seed=0, tokens=TOKENS), mock.endpoint, salt="a")
    fields = mock.requests()[0]["fields"]
    assert fields["tool_choice"] == choice
    assert fields["tools"][0]["function"]["name"] == "look"
    assert fields["tools"][0]["function"]["description"].endswith(" Looks.")


def test_lengths_become_texts_of_that_length(write: Write, mock: Mock) -> None:
    path = write("Index,Prompt_Tokens,output_tokens", "0,100,3", "1,2000,5", "2,,", name="t.csv")
    plan = replay(Replay(path, requests=2, window=2), seed=0, tokens=TOKENS)
    assert plan.pacing == Closed(2)
    result = run_load(plan, mock.endpoint, salt="a")
    template = len("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n")
    assert [record.prompt_tokens for record in result.records] == [100 + template, 2000 + template]
    assert [record.output_tokens for record in result.records] == [3, 5]
    assert all((record.cached_tokens or 0) <= 16 for record in result.records)


def test_lengths_are_scaled(write: Write) -> None:
    path = write({"input_length": 1000, "output_length": 30})
    (session,) = replay(Replay(path, scale=0.1), seed=0, tokens=TOKENS).sessions
    assert session.turns[0].expect_prompt_tokens == 100
    assert session.turns[0].max_tokens == 3


def test_equal_blocks_get_equal_texts(write: Write, mock: Mock) -> None:
    path = write(
        {"timestamp": 0, "input_length": 1100, "output_length": 2, "hash_ids": [1, 2, 3]},
        {"timestamp": 3000, "input_length": 1500, "output_length": 2, "hash_ids": [1, 2, 9]},
        {"timestamp": 9000, "input_length": 512, "output_length": 2, "hash_ids": [7]},
    )
    plan = replay(Replay(path), seed=0, tokens=TOKENS)
    lengths = [session.turns[0].expect_prompt_tokens for session in plan.sessions]
    assert lengths == [1100, 1500, 512]
    records = run_load(plan, mock.endpoint, salt="a").records
    assert records[1].cached_tokens is not None
    assert 1008 <= records[1].cached_tokens <= 1056
    assert records[2].cached_tokens is not None
    assert records[2].cached_tokens < 80


def test_open_mode_keeps_the_recorded_gaps(write: Write) -> None:
    rows = [{"prompt_tokens": 60, "output_tokens": 2, "arrival_s": at} for at in (12.0, 10.0, 15.0)]
    plan = replay(Replay(write(*rows), mode="open", time_scale=0.5), seed=0, tokens=TOKENS)
    assert plan.pacing == Open()
    assert [session.turns[0].arrival_s for session in plan.sessions] == [0.0, 1.0, 2.5]
    mooncake = [
        {"timestamp": ms, "input_length": 60, "output_length": 2, "hash_ids": [1]}
        for ms in (0, 1500)
    ]
    plan = replay(Replay(write(*mooncake), mode="open", limit=3), seed=0, tokens=TOKENS)
    assert plan.pacing == Open(3)
    assert [session.turns[0].arrival_s for session in plan.sessions] == [0.0, 1.5]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "a row is a JSON object"),
        ({"output_tokens": 3}, "neither messages nor a length"),
        ({"prompt_tokens": 0, "output_tokens": 1}, "whole number"),
        ({"prompt_tokens": 1.5, "output_tokens": 1}, "whole number"),
        ({"prompt_tokens": "many", "output_tokens": 1}, "many"),
        ({"prompt_tokens": 10, "timestamp": -1, "output_tokens": 1}, "timestamp"),
        ({"prompt_tokens": 10, "output_tokens": 1, "timestamp": "nan"}, "timestamp"),
        ({"prompt_tokens": 60}, "no length of the answer"),
        ({"messages": []}, "messages"),
        ({"messages": ["a"]}, "role"),
        ({"messages": [{"role": "user", "content": "a"}], "tools": [{}]}, "tools"),
        ({"prompt_tokens": 10, "output_tokens": 1, "hash_ids": ["a"]}, "hash_ids"),
    ],
)
def test_a_row_that_says_too_little_is_named(write: Write, row: Any, said: str) -> None:
    good = {"prompt_tokens": 60, "output_tokens": 2}
    path = write(good, "", row)
    with pytest.raises(UserError, match=said) as caught:
        replay(Replay(path), seed=0, tokens=TOKENS)
    assert caught.value.line == 3
    assert caught.value.file == path


def test_open_mode_needs_times(write: Write) -> None:
    path = write({"prompt_tokens": 60, "output_tokens": 2})
    with pytest.raises(UserError, match="time of arrival"):
        replay(Replay(path, mode="open"), seed=0, tokens=TOKENS)


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    for name, content in {
        "a.txt": b"",
        "a.jsonl": b"",
        "b.jsonl": b"\xff\xfe",
        "c.csv": b"a,b\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError):
            read_trace(tmp_path / name)
    with pytest.raises(UserError, match="No such file"):
        read_trace(tmp_path / "none.csv")


@given(st.binary(max_size=200), st.sampled_from([".csv", ".jsonl"]))
def test_any_file_is_read_or_refused(data: bytes, suffix: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"trace{suffix}"
        path.write_bytes(data)
        with contextlib.suppress(UserError):
            assert read_trace(path)

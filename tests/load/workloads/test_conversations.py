from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.load.conftest import Mock
from tuner.load.body import Conversation
from tuner.load.lengths import Uniform
from tuner.load.plan import Closed, Open
from tuner.load.run import run_load
from tuner.load.salt import reference_salt, salt_of
from tuner.load.text import LengthUnreachable
from tuner.load.tokens import ByteTokens, ServerTokens
from tuner.load.workloads.conversations import Conversations, conversations, warm_up

SHAPE = Conversations(
    sessions=3,
    turns=Uniform(2, 4),
    system_tokens=200,
    user_tokens=Uniform(20, 60),
    output_tokens=Uniform(4, 9),
)
TOKENS = ByteTokens()


def test_lengths_are_exact() -> None:
    plan = conversations(SHAPE, seed=1, tokens=TOKENS)
    for session in plan.sessions:
        known = len(reference_salt())
        assert 2 <= len(session.turns) <= 4
        for index, one in enumerate(session.turns):
            if index == 0:
                assert len(one.messages[0].content) == 200 - len(reference_salt())
            assert 20 <= len(one.messages[-1].content) <= 60
            assert one.max_tokens is not None
            assert 4 <= one.max_tokens <= 9
            known += sum(len(message.content) for message in one.messages)
            assert one.expect_prompt_tokens == known


def test_the_same_seed_gives_the_same_bytes() -> None:
    one = conversations(SHAPE, seed=1, tokens=TOKENS)
    assert conversations(SHAPE, seed=1, tokens=TOKENS) == one
    assert conversations(SHAPE, seed=2, tokens=TOKENS).fingerprint != one.fingerprint
    bodies = [
        Conversation(session, model="llm", salt=salt_of("t")).body(session.turns[0])
        for plan in (one, conversations(SHAPE, seed=1, tokens=TOKENS))
        for session in plan.sessions
    ]
    assert bodies[:3] == bodies[3:]


def test_the_fingerprint_is_pinned() -> None:
    """The same seed must give the same prompts in every version, or studies cannot be compared."""
    shape = replace(SHAPE, tools=2, rate=1.0)
    assert (
        conversations(shape, seed=7, tokens=TOKENS).fingerprint
        == "23c831baca32a14ee7a2d83d5c7d4b5ac6f1951488a922c273448499f3df7f29"
    )


def test_conversations_share_their_system_prompt_and_nothing_else() -> None:
    plan = conversations(SHAPE, seed=1, tokens=TOKENS)
    assert len({session.turns[0].messages[0] for session in plan.sessions}) == 1
    users = [turn.messages[-1] for session in plan.sessions for turn in session.turns]
    assert len(set(users)) == len(users)


def test_growth() -> None:
    shape = replace(SHAPE, turns=4, user_tokens=10, growth=2.0)
    (session, *_) = conversations(shape, seed=1, tokens=TOKENS).sessions
    assert [len(turn.messages[-1].content) for turn in session.turns] == [10, 20, 40, 80]


def test_tools_in_the_request_or_in_the_system_prompt() -> None:
    inside = conversations(replace(SHAPE, tools=12, tools_in="request"), seed=1, tokens=TOKENS)
    assert all(len(session.tools) == 12 for session in inside.sessions)
    assert len({tool.name for tool in inside.sessions[0].tools}) == 12
    written = conversations(replace(SHAPE, tools=12, tools_in="system"), seed=1, tokens=TOKENS)
    assert all(session.tools == () for session in written.sessions)
    system = written.sessions[0].turns[0].messages[0].content
    assert all(tool.name in system for tool in inside.sessions[0].tools)
    assert len(system) > 12 * 100


def test_pacing() -> None:
    assert conversations(SHAPE, seed=1, tokens=TOKENS).pacing == Closed(4)
    plan = conversations(replace(SHAPE, sessions=400, rate=20.0), seed=1, tokens=TOKENS)
    assert plan.pacing == Open()
    starts = [session.turns[0].arrival_s for session in plan.sessions]
    assert starts[0] == 0.0
    assert starts == sorted(starts, key=lambda at: at or 0.0)
    assert starts[-1] == pytest.approx(20.0, rel=0.2)


def test_think_time_is_between_turns_only() -> None:
    plan = conversations(replace(SHAPE, think_s=(1.0, 2.0)), seed=1, tokens=TOKENS)
    for session in plan.sessions:
        first, *rest = [turn.think_s for turn in session.turns]
        assert first == 0.0
        assert all(1.0 <= think <= 2.0 for think in rest)


def test_a_system_prompt_that_cannot_hold_the_salt() -> None:
    with pytest.raises(LengthUnreachable, match="salt"):
        conversations(
            replace(SHAPE, system_tokens=len(reference_salt()) - 1), seed=1, tokens=TOKENS
        )


def test_the_warm_up_has_the_shape_and_none_of_the_texts() -> None:
    plan = conversations(SHAPE, seed=1, tokens=TOKENS)
    warm = warm_up(SHAPE, seed=1, tokens=TOKENS)
    assert warm.workload == "conversations-warmup"
    assert len(warm.sessions) == 3
    measured = {message for s in plan.sessions for turn in s.turns for message in turn.messages}
    assert not measured & {m for s in warm.sessions for turn in s.turns for m in turn.messages}
    assert len(warm_up(SHAPE, seed=1, tokens=TOKENS, sessions=1).sessions) == 1


def test_the_server_counts_what_the_plan_says(mock: Mock) -> None:
    with ServerTokens(mock.endpoint) as tokens:
        plan = conversations(SHAPE, seed=1, tokens=tokens)
    assert plan == conversations(SHAPE, seed=1, tokens=TOKENS)
    result = run_load(plan, mock.endpoint, salt=salt_of("a"))
    for record in result.records:
        if record.turn == 0:
            expected = plan.sessions[record.session].turns[0].expect_prompt_tokens
            template = len(
                "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"
            )
            assert expected is not None
            assert record.prompt_tokens == expected + template


def test_prefixes_grow_in_the_cache_and_no_trial_warms_another(
    start_mock: Callable[..., Mock], tmp_path: Path
) -> None:
    mock = start_mock("--uds", str(tmp_path / "s"))
    plan = conversations(replace(SHAPE, concurrency=1), seed=1, tokens=TOKENS)
    first = run_load(plan, mock.endpoint, salt=salt_of("one"))
    second = run_load(plan, mock.endpoint, salt=salt_of("two"))
    cached = [record.cached_tokens for record in first.records]
    assert cached[0] == 0
    template = len("<|im_start|>syst")  # the one block that the template writes by itself
    assert [record.cached_tokens for record in second.records] == [template, *cached[1:]]
    before = None
    for record in first.records:
        if record.turn > 0:
            assert before is not None
            assert before.prompt_tokens is not None
            assert record.cached_tokens is not None
            assert record.cached_tokens >= before.prompt_tokens - 16 - len(
                "<|im_start|>assistant\n"
            )
        before = record

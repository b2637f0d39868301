from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.fidelity.asked import Keys, LengthsUnknown, asked
from tuner.load.plan import Closed, Message, Open, Plan, Session, Tool, Turn

SYSTEM = Message("system", "s" * 30)


def turn(text: str, tokens: int | None, output: int | None = 5, **more: object) -> Turn:
    messages = (Message("user", text),)
    return replace(Turn(messages, expect_prompt_tokens=tokens, expect_output_tokens=output), **more)  # type: ignore[arg-type]  # fields of a turn


def plan(*sessions: Session, **more: object) -> Plan:
    return Plan("w", 1, sessions, more.pop("pacing", Closed(2)), **more)  # type: ignore[arg-type]


def opening(text: str, tokens: int) -> Turn:
    return replace(turn(text, tokens), messages=(SYSTEM, Message("user", text)))


def test_a_turn_adds_what_it_has_more_than_the_one_before() -> None:
    found = asked(plan(Session((opening("u" * 10, 40), turn("v" * 9, 52)))))
    first, second = found.sessions[0]
    assert [part.tokens for part in first.added] == [30, 10]
    assert [part.tokens for part in second.added] == [12]
    assert (first.output, found.concurrency, found.requests) == (5, 2, 2)
    assert found.longest() == 40 + 5 + 12 + 5


def test_conversations_share_what_they_begin_with_alike() -> None:
    a = Session((opening("u" * 10, 40), turn("same", 50)))
    b = Session((opening("x" * 10, 40), turn("same", 50)))
    found = asked(plan(a, b, a))
    nodes = [[[p.node for p in t.added] for t in turns] for turns in found.sessions]
    assert nodes[0][0][0] == nodes[1][0][0]
    assert nodes[0][0][1] != nodes[1][0][1]
    assert nodes[0][0] == nodes[2][0]
    # After an answer of its own, the same text is another beginning.
    assert len({tuple(turns[1]) for turns in nodes}) == 3


def test_without_threaded_answers_the_next_turn_follows_the_question() -> None:
    a = Session((opening("u" * 10, 40), turn("same", 50)))
    found = asked(plan(a, a, thread_answers=False))
    assert found.sessions[0][1].added == found.sessions[1][1].added
    assert found.longest() == 55


def test_an_answer_that_comes_back_in_other_tokens_is_part_of_the_next_prompt() -> None:
    found = asked(plan(Session((opening("u" * 10, 40), turn("v" * 9, 52)))), verbatim=False)
    first, second = found.sessions[0]
    assert not found.threaded
    assert [part.tokens for part in second.added] == [5, 12]
    assert second.added[0].node != first.answer
    assert found.longest() == 40 + 5 + 12 + 5


def test_other_tools_are_another_beginning() -> None:
    tool = Tool("t", "d", "{}")
    with_tools = Session((opening("u", 31),), tools=(tool,))
    found = asked(plan(with_tools, Session((opening("u", 31),))))
    assert found.sessions[0][0].added[0].node != found.sessions[1][0].added[0].node


def test_the_template_counts_once_a_message_and_once_for_the_answer() -> None:
    found = asked(plan(Session((opening("u" * 10, 40),))), template=4)
    assert [part.tokens for part in found.sessions[0][0].added] == [34, 18]


def test_open_loops_have_arrivals_and_no_concurrency() -> None:
    found = asked(plan(Session((turn("u", 3, arrival_s=1.5),)), pacing=Open()))
    assert found.concurrency is None
    assert found.sessions[0][0].arrival_s == 1.5


@pytest.mark.parametrize(("tokens", "output"), [(None, 5), (3, None)])
def test_unknown_lengths_are_told(tokens: int | None, output: int | None) -> None:
    with pytest.raises(LengthsUnknown, match="turn 0 of conversation 0"):
        asked(plan(Session((turn("u", tokens, output),))))


def test_max_tokens_stand_for_an_answer_that_nobody_expects() -> None:
    found = asked(plan(Session((turn("u", 3, None, max_tokens=9),))))
    assert found.sessions[0][0].output == 9


def test_a_block_is_known_by_where_it_ends() -> None:
    a, b = Keys(4), Keys(4)
    a.extend(1, 6)
    a.extend(2, 6)
    b.extend(1, 6)
    b.extend(3, 6)
    assert a.keys[0] == b.keys[0]
    assert not set(a.keys[1:]) & set(b.keys[1:])
    assert len(a.keys) == 3
    a.cut(7)
    assert len(a.keys) == 1
    a.extend(3, 1)
    assert len(a.keys) == 2

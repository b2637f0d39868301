"""Checks what a server counts against its own tokenizer and against what was asked of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from tuner.load.body import Conversation
from tuner.load.plan import Plan, Session
from tuner.load.record import Record
from tuner.load.run import LoadResult, session_salt


class ChatTokens(Protocol):
    """Says how many tokens a whole prompt has, in the server's chat template."""

    def count_chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None
    ) -> int:
        """Tokens of the prompt."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A count that is not what it should be.

    Attributes:
        session: Conversation number.
        turn: Turn number.
        what: ``prompt`` or ``output``.
        counted: What the server's usage said.
        expected: What it should have said.
    """

    session: int
    turn: int
    what: str
    counted: int | None
    expected: int


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """What a check found.

    Attributes:
        prompts: How many prompts were counted again.
        outputs: How many answers had a known length.
        differences: Those that were off.
    """

    prompts: int
    outputs: int
    differences: tuple[Difference, ...]

    @property
    def holds(self) -> bool:
        """Whether every count was as it should be."""
        return not self.differences

    @property
    def words(self) -> str:
        """What was found, for people."""
        counted = f"{self.prompts} prompts and {self.outputs} answers"
        if self.holds:
            return f"{counted} are as the tokenizer says"
        first = self.differences[0]
        return (
            f"{len(self.differences)} of {counted} are off; conversation {first.session}, turn "
            f"{first.turn}: {first.what} {first.counted}, not {first.expected}"
        )

    def as_json(self) -> dict[str, Any]:
        """What the ledger keeps of it."""
        return {
            "prompts": self.prompts,
            "answers": self.outputs,
            "off": len(self.differences),
            "words": self.words,
        }


def check_tokens(
    plan: Plan, result: LoadResult, tokens: ChatTokens, *, sample: int = 16
) -> TokenCheck:
    """Hold the token counts of a load against the server's tokenizer.

    The prompts of first turns are counted again, since the plan knows them whole; later ones hold
    the server's own answers. Prompts with images are left out: ``/tokenize`` counts a placeholder,
    and the engine what the image becomes. An answer that was to run to its length must have just that many
    tokens.

    Args:
        plan: What was sent.
        result: What came of it.
        tokens: The server's tokenizer.
        sample: The most prompts that are counted again, spread over the plan.
    """
    by_place = {(record.session, record.turn): record for record in result.records}
    step = max(1, -(-len(plan.sessions) // sample))
    found: list[Difference] = []
    prompts = 0
    for number in range(0, len(plan.sessions), step):
        record = by_place.get((number, 0))
        if record is not None and record.ok and _textual(plan.sessions[number]):
            prompts += 1
            found += _differs(
                record, "prompt", record.prompt_tokens, _count(plan, result, tokens, number)
            )
    outputs = 0
    for number, session in enumerate(plan.sessions):
        for index, turn in enumerate(session.turns):
            record = by_place.get((number, index))
            expected = turn.expect_output_tokens
            if record is not None and record.ok and expected is not None:
                outputs += 1
                found += _differs(record, "output", record.output_tokens, expected)
    return TokenCheck(prompts, outputs, tuple(found))


def _textual(session: Session) -> bool:
    return not any(message.parts for message in session.turns[0].messages)


def _count(plan: Plan, result: LoadResult, tokens: ChatTokens, number: int) -> int:
    """Tokens of the first prompt of a session, just as it was sent."""
    session = plan.sessions[number]
    salt = session_salt(plan, result.salt, number)
    body = json.loads(Conversation(session, model="", salt=salt).body(session.turns[0]))
    return tokens.count_chat(body["messages"], body.get("tools"))


def _differs(record: Record, what: str, counted: int | None, expected: int) -> list[Difference]:
    if counted == expected:
        return []
    return [Difference(record.session, record.turn, what, counted, expected)]

"""A plan as a scheduler sees it: sequences with lengths, and which of their stretches are the same.

Two sequences share a block exactly where all that stands before its end is the same. So each
stretch of text is a node of a tree in which a path is a beginning of a conversation, and a block is
known by the node in which it ends and by its place: no text and no hash is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuner.load.plan import Closed, Message, Plan, Session

_PLACES = 1 << 40


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a sequence: its node in the tree, and how many tokens it has."""

    node: int
    tokens: int


@dataclass(frozen=True, slots=True)
class AskedTurn:
    """One request.

    Attributes:
        added: What it adds to the conversation before it is sent.
        output: Tokens of its answer.
        answer: The answer's node; it is part of the conversation where answers are threaded.
        think_s: Seconds between the end of the previous answer and the moment it is due.
        arrival_s: When it is due, from the start of the load; it wins over ``think_s``.
    """

    added: tuple[Stretch, ...]
    output: int
    answer: int
    think_s: float
    arrival_s: float | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A whole load.

    Attributes:
        workload: Its name.
        sessions: The turns of each conversation.
        concurrency: Conversations open at a time; None in an open loop.
        threaded: Whether answers go back into their conversation.
    """

    workload: str
    sessions: tuple[tuple[AskedTurn, ...], ...]
    concurrency: int | None
    threaded: bool

    @property
    def requests(self) -> int:
        """How many requests there are."""
        return sum(len(turns) for turns in self.sessions)

    def longest(self) -> int:
        """Tokens of the longest sequence, its answer included."""
        longest = 0
        for turns in self.sessions:
            length = 0
            for turn in turns:
                length += sum(part.tokens for part in turn.added)
                longest = max(longest, length + turn.output)
                length += turn.output if self.threaded else 0
        return longest


class LengthsUnknown(ValueError):
    """Raised when a plan does not say how long its prompts or answers are."""


def asked(plan: Plan, *, template: int = 0, verbatim: bool = True) -> Asked:
    """Read a plan.

    A message's tokens are its share of what the plan expects of the turn, by characters.

    Args:
        plan: The plan.
        template: Tokens that the chat template adds to each message, the answer among them.
        verbatim: Whether an answer comes back as the very tokens that were generated. It does not
            where its text is cut or parsed, nor where a model of random weights writes bytes that
            are no text: then what comes back is as long, and is not found in the cache.

    Raises:
        LengthsUnknown: When the plan does not say how long a prompt or an answer is.
    """
    reader = _Reader(template, threaded=plan.thread_answers, verbatim=verbatim)
    sessions = tuple(
        tuple(reader.turns(session, number)) for number, session in enumerate(plan.sessions)
    )
    concurrency = plan.pacing.concurrency if isinstance(plan.pacing, Closed) else None
    return Asked(plan.workload, sessions, concurrency, plan.thread_answers and verbatim)


class _Tree:
    """Numbers for paths: the same for the same beginnings."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, object], int] = {}

    def node(self, parent: int, what: object) -> int:
        """The number of a path that goes on from another; the empty path is 0."""
        return self._numbers.setdefault((parent, what), len(self._numbers) + 1)


class _Reader:
    """Turns conversations into turns as a scheduler sees them."""

    def __init__(self, template: int, *, threaded: bool, verbatim: bool) -> None:
        self._tree = _Tree()
        self._template = template
        self._threaded = threaded
        self._verbatim = verbatim

    def turns(self, session: Session, number: int) -> Iterator[AskedTurn]:
        known = place = 0
        told: list[Stretch] = []
        tools = (session.tools, session.tool_choice) if session.tools else None
        for index, turn in enumerate(session.turns):
            output = turn.expect_output_tokens or turn.max_tokens
            if turn.expect_prompt_tokens is None or output is None:
                raise LengthsUnknown(
                    f"turn {index} of conversation {number} does not say how long it is"
                )
            lengths = _lengths(turn.messages, turn.expect_prompt_tokens - known)
            known = turn.expect_prompt_tokens
            added, told = told, []
            for message, tokens in zip(turn.messages, lengths, strict=True):
                place = self._tree.node(place, (message, tools))
                added.append(Stretch(place, tokens + self._template))
            if added:  # the head of the answer stands at the end of the prompt
                added[-1] = Stretch(place, added[-1].tokens + self._template)
            answer = self._tree.node(place, ("answer", number, index))
            if self._threaded and self._verbatim:
                place = answer
            elif self._threaded:
                place = self._tree.node(place, ("told again", number, index))
                told = [Stretch(place, output)]
            yield AskedTurn(tuple(added), output, answer, turn.think_s, turn.arrival_s)


def _lengths(messages: tuple[Message, ...], tokens: int) -> list[int]:
    """Tokens of each message: their sum exactly, in proportion to their characters."""
    total = sum(len(m.content) for m in messages)
    ends, seen = [], 0
    for message in messages:
        seen += len(message.content)
        ends.append(round(tokens * seen / total) if total else 0)
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


class Keys:
    """Keys of the full blocks of one conversation, as it grows.

    Args:
        block: Tokens of a block.
    """

    def __init__(self, block: int) -> None:
        self._block = block
        self._length = 0
        self.keys: list[int] = []

    def extend(self, node: int, tokens: int) -> None:
        """Add a stretch; blocks that end in it are known by it."""
        self._length += tokens
        for place in range(len(self.keys), self._length // self._block):
            self.keys.append(node * _PLACES + place)

    def cut(self, tokens: int) -> None:
        """Forget what stands after so many tokens."""
        self._length = tokens
        del self.keys[tokens // self._block :]

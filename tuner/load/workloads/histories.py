"""Prompts that carry a whole history, and share the front of it with earlier prompts."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field

from tuner.load.lengths import Bucket
from tuner.load.plan import Message, Tool
from tuner.load.text import exact_text
from tuner.load.tokens import Tokens
from tuner.load.workloads.common import shares
from tuner.load.workloads.image import tiny_png
from tuner.load.workloads.tools import tool_schema, tools_text

_FRESH = 0.05
"""The part of a prompt that is its own where it continues an earlier one: the next turn of a
conversation. A prompt either does that or begins anew; the bucket's reuse says how often."""
_TOOL_ROOM = 0.25
"""The most of a prompt that a schema of several functions takes."""
_TOOL_ROOM_ONE = 0.5
"""The most that a schema of one function without arguments takes."""
_GROWTH = 1.4
"""Each round of a history is so many times as long as the one before it: whatever front a later
prompt wants, there is one that is nearly as long."""
_SHORTEST = 24
"""Tokens of a history's first round, about."""
_NEAR = 0.65
"""The least part of the wanted front that an earlier prompt must have to be continued."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A whole prompt.

    Attributes:
        tools: The functions that it offers.
        rounds: Its messages, in rounds that a later prompt may begin with.
        tokens_by_round: Tokens of the texts up to the end of each round, the tool schema included.
        picture: An image that stands beside the last user's text, as a data URL.
        systems: How many system messages it has.
    """

    tools: tuple[Tool, ...]
    rounds: tuple[tuple[Message, ...], ...]
    tokens_by_round: tuple[int, ...]
    systems: int
    picture: str | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the texts and of the tool schema."""
        return self.tokens_by_round[-1]

    @property
    def shown(self) -> tuple[Message, ...]:
        """The messages as they are sent."""
        messages = [message for one in self.rounds for message in one]
        if self.picture is not None:
            last = messages[-1]
            parts = [
                {"type": "text", "text": last.content},
                {"type": "image_url", "image_url": {"url": self.picture}},
            ]
            messages[-1] = Message(last.role, json.dumps(parts), parts=True)
        return tuple(messages)


@dataclass(slots=True)
class _Account:
    """Keeps a part of a growing whole near a wanted share."""

    share: float
    whole: float = 0.0
    part: float = 0.0

    def lacks(self, more: float) -> float:
        """What the part lacks once so much more has been added to the whole."""
        return self.share * (self.whole + more) - self.part

    def add(self, whole: float, part: float) -> None:
        """Note what was added."""
        self.whole += whole
        self.part += part


@dataclass(slots=True)
class Histories:
    """Makes prompts one after another.

    Whether a prompt continues an earlier one, carries tools, has two system messages or an image is
    not drawn but accounted for: each is done as soon as its share would otherwise fall behind, so
    that short loads have the shares too.

    Args:
        rng: Where texts come from.
        tokens: The served tokenizer.
        salt: What will stand in front of each prompt; its tokens count as the prompt's.
        tools: The most functions of a prompt.
        tool_share: Part of the prompts with tools.
        multi_system_share: Part of the prompts with two system messages.
        image_share: Part of the prompts with an image.
    """

    rng: random.Random
    tokens: Tokens
    salt: str
    tools: int
    tool_share: float
    multi_system_share: float
    image_share: float
    _earlier: list[Prompt] = field(default_factory=list)
    _reuse: dict[Bucket, _Account] = field(default_factory=dict)
    _marks: dict[str, _Account] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._marks = {
            "tools": _Account(self.tool_share),
            "systems": _Account(self.multi_system_share),
            "images": _Account(self.image_share),
        }

    def prompt(self, bucket: Bucket, length: int) -> Prompt:
        """The next prompt: of so many tokens, sharing with earlier ones what its bucket says."""
        account = self._reuse.setdefault(bucket, _Account(bucket.reuse))
        wanted = length * (1 - _FRESH)
        front = self._front(int(wanted)) if account.lacks(length) >= wanted / 2 else None
        if front is None:
            prompt, shared = self._cold(length), 0
        else:
            prompt, shared = self._grown(front, length), front.tokens
        account.add(length, shared)
        self._earlier.append(prompt)
        return prompt

    def _front(self, wanted: int) -> Prompt | None:
        """The front of an earlier prompt: not longer than wanted, and not much shorter.

        Of those, the latest that has the marks which are due, and else the latest.
        """
        due = (self._due("tools"), self._due("systems"))
        second: Prompt | None = None
        for prompt in reversed(self._earlier):
            rounds = sum(1 for tokens in prompt.tokens_by_round if tokens <= wanted)
            if rounds and prompt.tokens_by_round[rounds - 1] >= wanted * _NEAR:
                front = Prompt(
                    prompt.tools,
                    prompt.rounds[:rounds],
                    prompt.tokens_by_round[:rounds],
                    prompt.systems,
                )
                if (bool(front.tools), front.systems == 2) == due:
                    return front
                second = second or front
        return second

    def _cold(self, length: int) -> Prompt:
        """A prompt that no earlier one begins like."""
        tools = self._schema(length) if self._due("tools") else ()
        used = self.tokens.count(tools_text(tools)) if tools else 0
        room = length - used
        size = max(room // 16, self.tokens.count(self.salt))
        opening = [Message("system", self._text(size, prefix=self.salt))]
        if self._due("systems"):
            more = (room - size) // 16
            opening.append(Message("system", self._text(more)))
            size += more
        return self._grown(Prompt(tools, (tuple(opening),), (used + size,), len(opening)), length)

    def _grown(self, front: Prompt, length: int) -> Prompt:
        """A prompt that begins like another one and goes on to its length."""
        left = length - front.tokens
        rounds, ends = list(front.rounds), list(front.tokens_by_round)
        if rounds[-1][-1].role == "user":
            answer = left // 4
            rounds.append((Message("assistant", self._text(answer)),))
            ends.append(ends[-1] + answer)
            left -= answer
        sizes = self._sizes(left)
        for number, size in enumerate(sizes, 1):
            rounds.append(self._round(size, tools=front.tools, last=number == len(sizes)))
            ends.append(ends[-1] + size)
        picture = tiny_png(self.rng) if self._due("images") else None
        marks = {"tools": bool(front.tools), "systems": front.systems == 2, "images": bool(picture)}
        for mark, there in marks.items():
            self._marks[mark].add(1.0, float(there))
        return Prompt(front.tools, tuple(rounds), tuple(ends), front.systems, picture)

    def _sizes(self, left: int) -> list[int]:
        """Lengths of the rounds that fill so many tokens: each about so much longer than the last."""
        rounds = 1 + max(0, int(math.log(max(left, 1) * (_GROWTH - 1) / _SHORTEST, _GROWTH)))
        return shares(left, [_GROWTH**k * (0.8 + 0.4 * self.rng.random()) for k in range(rounds)])

    def _round(self, size: int, *, tools: tuple[Tool, ...], last: bool) -> tuple[Message, ...]:
        """A user's message and what came of it; of the last round, the user's message alone."""
        if last:
            return (Message("user", self._text(size)),)
        if not tools:
            asked, answered = shares(size, [1.0, 1.0])
            return Message("user", self._text(asked)), Message("assistant", self._text(answered))
        asked, found, answered = shares(size, [1.0, 3.0, 1.0])
        number = len(self._earlier)
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": tools[-1].name, "arguments": "{}"},
        }
        return (
            Message("user", self._text(asked)),
            Message("assistant", "", extra=json.dumps({"tool_calls": [call]})),
            Message("tool", self._text(found), extra=json.dumps({"tool_call_id": call["id"]})),
            Message("assistant", self._text(answered)),
        )

    def _schema(self, length: int) -> tuple[Tool, ...]:
        """Functions that take no more of the prompt than they may; no two schemas begin alike."""
        tools = tool_schema(self.rng, self.tools + 100)
        start = int(self.rng.random() * 100)
        chosen = tools[start : start + self.tools]
        while chosen and self._weighs(chosen, length) > _TOOL_ROOM:
            chosen = chosen[: len(chosen) // 2]
        if not chosen and self.tools:
            chosen = (Tool(tools[start].name, "", "{}"),)
        return chosen if self._weighs(chosen, length) <= _TOOL_ROOM_ONE else ()

    def _weighs(self, tools: tuple[Tool, ...], length: int) -> float:
        """The part of a prompt that a schema takes."""
        return self.tokens.count(tools_text(tools)) / length if tools else 0.0

    def _text(self, size: int, prefix: str = "") -> str:
        return exact_text(self.tokens, self.rng, size, prefix=prefix).removeprefix(prefix)

    def _due(self, mark: str) -> bool:
        """Whether the next prompt must have a mark for the mark's share to hold."""
        return self._marks[mark].lacks(1.0) >= 0.5

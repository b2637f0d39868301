"""A plan: every request of a load, written down before the first one is sent.

A plan knows nothing of engines or of trials. The same plan sent with two salts asks the same
questions of two engines, and neither warms the other. The builders in :mod:`tuner.load.workloads`
write plans; :func:`tuner.load.run.run_load` carries them out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tuner.load.record import Since


@dataclass(frozen=True, slots=True)
class Message:
    """One message that a request adds to its conversation.

    Attributes:
        role: ``system``, ``user``, ``assistant`` or ``tool``.
        content: The text, or the JSON text of a list of parts where ``parts`` is set.
        parts: Whether ``content`` is the JSON text of a list of content parts (images and text).
        extra: JSON text of further fields of the message (``tool_calls``, ``tool_call_id``, ``name``).
    """

    role: str
    content: str
    parts: bool = False
    extra: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call.

    Attributes:
        name: Its name. Where it has at most 16 characters, a salt fits before it.
        description: What it does.
        parameters: JSON text of the JSON Schema of its arguments.
    """

    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: what it adds to the conversation, and how its answer is asked for.

    Attributes:
        messages: The messages that are appended before the request is sent.
        max_tokens: The most tokens that the answer may have; None leaves the field out.
        sampling: Further fields of the request, as JSON text of one object (``temperature``,
            ``ignore_eos``, ``stop`` …). They win over the client's own.
        think_s: Seconds between the end of the previous answer and the moment this request is due.
        arrival_s: Seconds from the start of the load at which this request is due. It wins over
            ``think_s``. A request that waits for the answer before it stays due at its arrival, so
            the wait counts as its latency.
        expect_prompt_tokens: Tokens of the text of all messages of the conversation that the plan
            knows, without the chat template's own; None where nobody counted.
        expect_output_tokens: Tokens that the answer is expected to have.
    """

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    sampling: str = "{}"
    think_s: float = 0.0
    arrival_s: float | None = None
    expect_prompt_tokens: int | None = None
    expect_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation: its turns are sent one after another, never side by side.

    Attributes:
        turns: The requests, in order.
        tools: The functions offered with each request.
        tool_choice: The request's ``tool_choice``, sent only where there are tools: a word, or the
            JSON text of an object.
    """

    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "none"


@dataclass(frozen=True, slots=True)
class Closed:
    """Closed loop: so many conversations at a time, the next one starts when one has ended.

    Attributes:
        concurrency: How many conversations are open at a time (the platform calls it window).
    """

    concurrency: int


@dataclass(frozen=True, slots=True)
class Open:
    """Open loop: each conversation starts at its first turn's arrival, whatever the server does.

    Attributes:
        limit: The most conversations that are open at a time; None for no limit. What the limit
            holds back stays due at its arrival, so the wait counts as its latency.
    """

    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole load.

    Attributes:
        workload: Name of the workload; it is in every record.
        seed: The seed that the texts and lengths came from.
        sessions: The conversations, in the order in which they start.
        pacing: Closed or open loop.
        thread_answers: Whether the server's own answers go back into their conversation. Where not,
            the plan's own messages are the whole conversation.
        salt_words: Words of the salt that goes in front of each conversation; 0 for none, which is
            for plans that mean to meet a warm cache.
        salt_each: Whether each conversation has a salt of its own, so that no two share a prefix.
            Otherwise the whole plan shares one.
        request_timeout_s: A request that has taken this long is a ``TIMEOUT``.
        load_timeout_s: When the load has taken this long it ends: what runs is ``CANCELLED``, what
            was not sent is ``NOT_SENT``.
    """

    workload: str
    seed: int
    sessions: tuple[Session, ...]
    pacing: Closed | Open
    thread_answers: bool = True
    salt_words: int = 12
    salt_each: bool = False
    request_timeout_s: float = 300.0
    load_timeout_s: float = 3600.0

    def __post_init__(self) -> None:
        if isinstance(self.pacing, Closed) and self.pacing.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {self.pacing.concurrency}")
        if isinstance(self.pacing, Open):
            if self.pacing.limit is not None and self.pacing.limit < 1:
                raise ValueError(f"the limit must be at least 1, not {self.pacing.limit}")
            for number, session in enumerate(self.sessions):
                if session.turns and session.turns[0].arrival_s is None:
                    raise ValueError(f"open loop, but session {number} says no arrival")

    @property
    def since(self) -> Since:
        """Where the latencies of this load start.

        In an open loop users come when they come: what made a request wait, a limit or the client
        itself, is a part of what it took. In a closed loop a request is due when it is sent.
        """
        return "scheduled" if isinstance(self.pacing, Open) else "sent"

    @property
    def requests(self) -> int:
        """How many requests the plan has."""
        return sum(len(session.turns) for session in self.sessions)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that is sent and when; equal plans have equal fingerprints."""
        total = hashlib.sha256()
        for part in self._parts():
            total.update(json.dumps(part, sort_keys=True).encode())
            total.update(b"\n")
        return total.hexdigest()

    def _parts(self) -> Iterator[Any]:
        yield [type(self.pacing).__name__, asdict(self.pacing)]
        yield [self.workload, self.seed, self.thread_answers]
        yield [self.salt_words, self.salt_each]
        yield [self.request_timeout_s, self.load_timeout_s]
        for session in self.sessions:
            yield [[asdict(tool) for tool in session.tools], session.tool_choice]
            for turn in session.turns:
                yield asdict(turn)

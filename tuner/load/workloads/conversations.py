"""Cumulative conversations: prompts that grow turn by turn, with the server's own answers in them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from tuner.load.lengths import Length, Uniform, draw
from tuner.load.plan import Closed, Message, Open, Plan, Session, Tool, Turn
from tuner.load.salt import reference_salt
from tuner.load.text import LengthUnreachable, exact_text
from tuner.load.tokens import Tokens
from tuner.load.workloads.common import generator, sampling
from tuner.load.workloads.tools import tool_schema, tools_text

_USER_TOKENS = Uniform(200, 1600)


@dataclass(frozen=True, slots=True)
class Conversations:
    """The shape of a load of conversations. Lengths are tokens of the served tokenizer.

    Attributes:
        name: Name of the workload.
        sessions: How many conversations.
        turns: Requests in each.
        concurrency: Conversations open at a time; not used where ``rate`` is set.
        system_tokens: Length of the system prompt, the salt included. All conversations of a load
            share it.
        tools: How many functions are offered.
        tools_in: Where they stand: in the ``request``, as clients send them, or as text in the
            ``system`` prompt, on top of ``system_tokens``.
        tool_choice: The request's ``tool_choice``; ``none`` needs no tool parser in the server.
        user_tokens: Length of a user's message.
        growth: Each next message of a user is this many times as long as a drawn one: turn ``t``
            has ``drawn * growth ** t`` tokens.
        output_tokens: The most tokens of an answer.
        ignore_eos: Whether answers run to that length whatever the model says.
        temperature: 0 for greedy answers.
        think_s: Seconds that a user thinks before the next message.
        rate: Conversations that start each second, in an open loop with exponential gaps.
        request_timeout_s: Time for one request.
        load_timeout_s: Time for all.
    """

    name: str = "conversations"
    sessions: int = 8
    turns: Length = 4
    concurrency: int = 4
    system_tokens: Length = 600
    tools: int = 0
    tools_in: Literal["request", "system"] = "request"
    tool_choice: str = "none"
    user_tokens: Length = _USER_TOKENS
    growth: float = 1.0
    output_tokens: Length = 48
    ignore_eos: bool = True
    temperature: float = 0.0
    think_s: tuple[float, float] = (0.0, 0.0)
    rate: float | None = None
    request_timeout_s: float = 300.0
    load_timeout_s: float = 3600.0


def conversations(shape: Conversations, *, seed: int, tokens: Tokens) -> Plan:
    """The plan of a load of conversations: the same bytes for the same shape, seed and tokenizer.

    Args:
        shape: What the load looks like.
        seed: Where texts and drawn lengths come from.
        tokens: The served tokenizer.

    Raises:
        LengthUnreachable: When the system prompt is too short to hold the salt.
    """
    rng = generator(shape.name, seed)
    tools = tool_schema(rng, shape.tools)
    system = _system(shape, rng, tokens, tools)
    starts = _arrivals(shape, rng)
    sessions = tuple(
        Session(
            turns=_turns(shape, rng, tokens, system, start),
            tools=tools if shape.tools_in == "request" else (),
            tool_choice=shape.tool_choice,
        )
        for start in starts
    )
    return Plan(
        workload=shape.name,
        seed=seed,
        sessions=sessions,
        pacing=Closed(shape.concurrency) if shape.rate is None else Open(),
        request_timeout_s=shape.request_timeout_s,
        load_timeout_s=shape.load_timeout_s,
    )


def warm_up(
    shape: Conversations, *, seed: int, tokens: Tokens, sessions: int | None = None
) -> Plan:
    """A plan of the same shape with other texts, to be sent before the measurement with its own salt.

    Args:
        shape: The shape of the load that follows.
        seed: Its seed; the warm-up's texts are drawn from another.
        tokens: The served tokenizer.
        sessions: Conversations of the warm-up; by default as many as are open at a time.
    """
    count = min(shape.concurrency, shape.sessions) if sessions is None else sessions
    warm = replace(
        shape, name=f"{shape.name}-warmup", sessions=count, rate=None, think_s=(0.0, 0.0)
    )
    return conversations(warm, seed=seed, tokens=tokens)


def _system(
    shape: Conversations, rng: random.Random, tokens: Tokens, tools: tuple[Tool, ...]
) -> str:
    """The system prompt without the salt, so long that both together have the asked length."""
    salt = reference_salt()
    length = draw(rng, shape.system_tokens)
    if tokens.count(salt) > length:
        raise LengthUnreachable(
            f"the system prompt has {length} tokens, and the salt alone has {tokens.count(salt)}"
        )
    text = exact_text(tokens, rng, length, prefix=salt).removeprefix(salt)
    if tools and shape.tools_in == "system":
        text += "\n" + tools_text(tools)
    return text


def _arrivals(shape: Conversations, rng: random.Random) -> list[float | None]:
    if shape.rate is None:
        return [None] * shape.sessions
    at = 0.0
    arrivals: list[float | None] = []
    for _ in range(shape.sessions):
        arrivals.append(at)
        at += rng.expovariate(shape.rate)
    return arrivals


def _turns(
    shape: Conversations, rng: random.Random, tokens: Tokens, system: str, start: float | None
) -> tuple[Turn, ...]:
    known = tokens.count(reference_salt() + system)
    turns = []
    for index in range(draw(rng, shape.turns)):
        length = round(draw(rng, shape.user_tokens) * shape.growth**index)
        user = exact_text(tokens, rng, length)
        known += length
        output = draw(rng, shape.output_tokens)
        low, high = shape.think_s
        opening = (Message("system", system),) if index == 0 else ()
        turns.append(
            Turn(
                messages=(*opening, Message("user", user)),
                max_tokens=output,
                sampling=sampling(temperature=shape.temperature, ignore_eos=shape.ignore_eos),
                think_s=(low + (high - low) * rng.random()) if index else 0.0,
                arrival_s=start if index == 0 else None,
                expect_prompt_tokens=known,
                expect_output_tokens=output if shape.ignore_eos else None,
            )
        )
    return tuple(turns)

"""The decode curve: short prompts and answers of one length, at several concurrencies."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner.load.lengths import Length, draw
from tuner.load.plan import Closed, Message, Plan, Session, Turn
from tuner.load.salt import reference_salt
from tuner.load.text import exact_text
from tuner.load.tokens import Tokens
from tuner.load.workloads.common import generator, salt_words, sampling


@dataclass(frozen=True, slots=True)
class DecodeCurve:
    """The shape of a decode curve. Lengths are tokens of the served tokenizer.

    Attributes:
        name: Name of the workload; each level's is this and its concurrency, ``decode-c4``.
        concurrencies: Requests that run at a time, level by level.
        rounds: At concurrency ``c`` a level has ``rounds * c`` requests.
        prompt_tokens: Length of a prompt, the salt included; no two prompts share a prefix.
        output_tokens: Length of an answer.
        ignore_eos: Whether answers run to that length whatever the model says.
        temperature: 0 for greedy answers.
        request_timeout_s: Time for one request.
        load_timeout_s: Time for a level.
    """

    name: str = "decode"
    concurrencies: tuple[int, ...] = (1, 2, 4)
    rounds: int = 2
    prompt_tokens: Length = 32
    output_tokens: int = 128
    ignore_eos: bool = True
    temperature: float = 0.0
    request_timeout_s: float = 300.0
    load_timeout_s: float = 3600.0


def decode_curve(shape: DecodeCurve, *, seed: int, tokens: Tokens) -> tuple[Plan, ...]:
    """One plan for each concurrency, in the order of the shape.

    Each level asks other questions and has a name of its own, so none meets what an earlier one
    left in the cache.

    Raises:
        LengthUnreachable: When no text of a drawn length can be built.
    """
    return tuple(_level(shape, concurrency, seed, tokens) for concurrency in shape.concurrencies)


def level_name(name: str, concurrency: int) -> str:
    """The name of the plan of one concurrency."""
    return f"{name}-c{concurrency}"


def warm_up(shape: DecodeCurve, *, seed: int, tokens: Tokens, requests: int) -> Plan:
    """So many requests of the same shape at the largest concurrency, with other texts."""
    largest = max(shape.concurrencies)
    named = replace(shape, name=f"{shape.name}-warmup")
    plan = _level(named, largest, seed, tokens, requests=requests)
    return replace(plan, workload=named.name)


def _level(
    shape: DecodeCurve, concurrency: int, seed: int, tokens: Tokens, requests: int | None = None
) -> Plan:
    name = level_name(shape.name, concurrency)
    rng = generator(name, seed)
    count = shape.rounds * concurrency if requests is None else requests
    lengths = [draw(rng, shape.prompt_tokens) for _ in range(count)]
    words = salt_words(tokens, min(lengths, default=0))
    salt = reference_salt(words)
    asked = sampling(temperature=shape.temperature, ignore_eos=shape.ignore_eos)
    sessions = []
    for length in lengths:
        text = exact_text(tokens, rng, length, prefix=salt).removeprefix(salt)
        turn = Turn(
            messages=(Message("user", text),),
            max_tokens=shape.output_tokens,
            sampling=asked,
            expect_prompt_tokens=length,
            expect_output_tokens=shape.output_tokens if shape.ignore_eos else None,
        )
        sessions.append(Session((turn,)))
    return Plan(
        workload=name,
        seed=seed,
        sessions=tuple(sessions),
        pacing=Closed(concurrency),
        salt_words=words,
        salt_each=True,
        request_timeout_s=shape.request_timeout_s,
        load_timeout_s=shape.load_timeout_s,
    )

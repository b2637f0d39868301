"""A load drawn from the shape of the official platform's replay, scaled to fit an engine.

The platform replays 881 recorded requests. What it publishes of them is how long the prompts are,
bucket by bucket, and what part of a prompt an earlier one has in common with it. Logs of its runs
give the lengths of the answers and how many requests carry tools, images and several system
messages. The requests here are drawn from that: each carries its whole history, as in a replay, and
shares the front of it with an earlier request as often as the bucket says.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tuner.load.lengths import Bucket, Buckets, Length, draw, scaled
from tuner.load.plan import Closed, Plan, Session, Turn
from tuner.load.salt import reference_salt
from tuner.load.tokens import Tokens
from tuner.load.workloads.common import generator, salt_words, sampling, shares, shuffled
from tuner.load.workloads.histories import Histories

PROMPTS = Buckets(
    (
        Bucket(256, 2_047, 95, 0.33),
        Bucket(2_048, 4_095, 1, 0.01),
        Bucket(4_096, 8_191, 219, 0.89),
        Bucket(8_192, 16_383, 222, 0.58),
        Bucket(16_384, 32_767, 115, 0.60),
        Bucket(32_768, 65_535, 110, 0.66),
        Bucket(65_536, 131_071, 114, 0.69),
        Bucket(131_072, 234_436, 5, 0.23),
    )
)
"""Published lengths of the prompts, with the reusable part of each bucket."""

OUTPUTS = Buckets(
    (
        Bucket(1, 58, 10),
        Bucket(59, 197, 40),
        Bucket(198, 368, 25),
        Bucket(369, 1_600, 15),
        Bucket(1_601, 4_640, 9),
        Bucket(4_641, 10_732, 1),
    )
)
"""Lengths of the answers between the percentiles (10, 50, 75, 90, 99, 100) of a logged run."""


@dataclass(frozen=True, slots=True)
class OfficialLike:
    """The shape of the load. Lengths are tokens of the served tokenizer, before scaling.

    Attributes:
        name: Name of the workload.
        requests: How many requests.
        concurrency: Requests that run at a time (the platform's window).
        scale: All lengths are multiplied by this.
        prompt_tokens: Lengths of the prompts with the reuse of each range. They count texts and
            tool schemas, not what the chat template adds.
        output_tokens: Lengths of the answers.
        tools: The most functions that a request offers; fewer where the prompt is short.
        tool_share: Part of the requests that carry tools and tool messages.
        multi_system_share: Part of the requests with two system messages.
        image_share: Part of the requests with an image, for models that see.
        max_prompt_tokens: Longest prompt after scaling; longer ones are left out of the draw.
        ignore_eos: Whether answers run to their length whatever the model says.
        temperature: 0 for greedy answers.
        request_timeout_s: Time for one request.
        load_timeout_s: Time for all.
    """

    name: str = "official-like"
    requests: int = 881
    concurrency: int = 1
    scale: float = 1.0
    prompt_tokens: Buckets = PROMPTS
    output_tokens: Length = OUTPUTS
    tools: int = 8
    tool_share: float = 690 / 881
    multi_system_share: float = 34 / 881
    image_share: float = 0.0
    max_prompt_tokens: int | None = None
    ignore_eos: bool = True
    temperature: float = 0.0
    request_timeout_s: float = 600.0
    load_timeout_s: float = 46_800.0


def official_like(shape: OfficialLike, *, seed: int, tokens: Tokens) -> Plan:
    """The plan: the same bytes for the same shape, seed and tokenizer.

    Raises:
        LengthUnreachable: When no text of a drawn length can be built.
        ValueError: When no range of prompts is short enough.
    """
    rng = generator(shape.name, seed)
    buckets = fitting(shape)
    lengths = _lengths(rng, buckets, shape.requests)
    outputs = _outputs(rng, scaled(shape.output_tokens, shape.scale), shape.requests)
    words = salt_words(tokens, min((length for _, length in lengths), default=0))
    histories = Histories(
        rng,
        tokens,
        salt=reference_salt(words),
        tools=shape.tools,
        tool_share=shape.tool_share,
        multi_system_share=shape.multi_system_share,
        image_share=shape.image_share,
    )
    asked = sampling(temperature=shape.temperature, ignore_eos=shape.ignore_eos)
    sessions = []
    for (bucket, length), output in zip(lengths, outputs, strict=True):
        prompt = histories.prompt(bucket, length)
        turn = Turn(
            messages=prompt.shown,
            max_tokens=output,
            sampling=asked,
            expect_prompt_tokens=prompt.tokens,
            expect_output_tokens=output if shape.ignore_eos else None,
        )
        sessions.append(Session((turn,), tools=prompt.tools))
    return Plan(
        workload=shape.name,
        seed=seed,
        sessions=tuple(sessions),
        pacing=Closed(shape.concurrency),
        thread_answers=False,
        salt_words=words,
        request_timeout_s=shape.request_timeout_s,
        load_timeout_s=shape.load_timeout_s,
    )


def warm_up(shape: OfficialLike, *, seed: int, tokens: Tokens, requests: int) -> Plan:
    """So many requests of the same shape, with other texts."""
    warm = replace(shape, name=f"{shape.name}-warmup", requests=requests)
    return official_like(warm, seed=seed, tokens=tokens)


def fitting(shape: OfficialLike) -> Buckets:
    """The ranges of prompts, scaled, and cut to the longest that the engine takes.

    Raises:
        ValueError: When none is left.
    """
    most = shape.max_prompt_tokens
    found: list[Bucket] = []
    for bucket in shape.prompt_tokens.buckets:
        low = max(1, round(bucket.low * shape.scale), found[-1].high + 1 if found else 1)
        high = max(low, round(bucket.high * shape.scale))
        if most is None or low <= most:
            high = high if most is None else min(high, most)
            found.append(replace(bucket, low=low, high=high))
    if not found:
        raise ValueError(f"no prompt is as short as {most} tokens: lower the scale")
    return Buckets(tuple(found))


def _lengths(rng: random.Random, buckets: Buckets, requests: int) -> list[tuple[Bucket, int]]:
    """The bucket and length of each prompt, as many of each bucket as its weight says, shuffled."""
    counts = shares(requests, (bucket.weight for bucket in buckets.buckets))
    each = zip(buckets.buckets, counts, strict=True)
    found = [(one, draw(rng, Buckets((one,)))) for one, count in each for _ in range(count)]
    return shuffled(rng, found)


def _outputs(rng: random.Random, length: Length, requests: int) -> list[int]:
    """The length of each answer; of ranges, as many of each as its weight says, shuffled."""
    if isinstance(length, Buckets):
        return [one for _, one in _lengths(rng, length, requests)]
    return [draw(rng, length) for _ in range(requests)]

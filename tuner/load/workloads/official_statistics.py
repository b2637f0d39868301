"""What a drawn load really looks like, beside what the platform published of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.load.lengths import Bucket
from tuner.load.plan import Plan, Session
from tuner.load.salt import reference_salt
from tuner.load.tokens import Tokens
from tuner.load.workloads.official_like import PROMPTS, OfficialLike, fitting
from tuner.load.workloads.tools import tools_text

PUBLISHED_REQUESTS = 881
PUBLISHED_PROMPT_MEAN = 25_654
PUBLISHED_OUTPUT_MEAN = 429
PUBLISHED_REUSE = 0.656
LOGGED_PROMPTS = {10: 7_197, 25: 8_191, 50: 13_381, 75: 39_078, 90: 85_506, 99: 131_150}
"""Percentiles of 664 prompts of a logged run, in tokens."""
LOGGED_OUTPUTS = {10: 58, 50: 197, 75: 368, 90: 1_600, 99: 4_640}
"""Percentiles of the answers of a logged run, in tokens."""
TOOL_REQUESTS, IMAGE_REQUESTS, MULTI_SYSTEM_REQUESTS = 690, 27, 34


@dataclass(frozen=True, slots=True)
class BucketShape:
    """The requests of one range of lengths.

    Attributes:
        low: Shortest prompt of the range, in tokens.
        high: Longest prompt of the range.
        requests: How many there are.
        reuse: Part of their tokens that an earlier prompt begins with as well.
    """

    low: int
    high: int
    requests: int
    reuse: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """The shape of a load, counted from its plan. Lengths are tokens.

    Attributes:
        requests: How many there are.
        prompt_mean: Mean length of the prompts.
        prompt_total: Their sum.
        prompts: Percentiles of their lengths, by percentage.
        output_mean: Mean length of the answers.
        outputs: Percentiles of their lengths.
        reuse: Part of all prompt tokens that an earlier prompt begins with as well.
        buckets: The same by range of lengths.
        tool_share: Part of the requests with tools.
        multi_system_share: Part of the requests with several system messages.
        image_share: Part of the requests with an image.
    """

    requests: int
    prompt_mean: float
    prompt_total: int
    prompts: dict[int, float]
    output_mean: float
    outputs: dict[int, float]
    reuse: float
    buckets: tuple[BucketShape, ...]
    tool_share: float
    multi_system_share: float
    image_share: float


def statistics(plan: Plan, shape: OfficialLike, tokens: Tokens) -> Statistics:
    """Count what a plan asks for. Reuse is found from the messages, not from how they were made.

    Args:
        plan: The plan that was drawn.
        shape: The shape that it was drawn from, for the ranges of lengths.
        tokens: The tokenizer that it was built with.

    Raises:
        ValueError: When the plan has no request.
    """
    if not plan.requests:
        raise ValueError("a load without requests has no shape")
    sizes, shared = _lengths_and_reuse(plan, tokens)
    outputs = [session.turns[0].max_tokens or 0 for session in plan.sessions]
    buckets = fitting(shape).buckets
    return Statistics(
        requests=plan.requests,
        prompt_mean=float(np.mean(sizes)),
        prompt_total=sum(sizes),
        prompts=_percentiles(sizes, LOGGED_PROMPTS),
        output_mean=float(np.mean(outputs)),
        outputs=_percentiles(outputs, LOGGED_OUTPUTS),
        reuse=sum(shared) / sum(sizes),
        buckets=tuple(_bucket(bucket, sizes, shared) for bucket in buckets),
        tool_share=_share(plan, lambda session: bool(session.tools)),
        multi_system_share=_share(plan, lambda session: _systems(session) > 1),
        image_share=_share(plan, lambda session: session.turns[0].messages[-1].parts),
    )


def table(found: Statistics, shape: OfficialLike) -> list[tuple[str, str, str]]:
    """Rows of name, published figure scaled to the load, and the load's own figure."""
    scale = shape.scale
    rows = [
        ("requests", f"{PUBLISHED_REQUESTS}", f"{found.requests}"),
        ("prompt tokens, mean", _scaled(PUBLISHED_PROMPT_MEAN, scale), f"{found.prompt_mean:.0f}"),
    ]
    for share, tokens in LOGGED_PROMPTS.items():
        name = f"prompt tokens, P{share} (logged)"
        rows.append((name, _scaled(tokens, scale), f"{found.prompts[share]:.0f}"))
    rows.append(
        ("answer tokens, mean", _scaled(PUBLISHED_OUTPUT_MEAN, scale), f"{found.output_mean:.0f}")
    )
    for share, tokens in LOGGED_OUTPUTS.items():
        name = f"answer tokens, P{share} (logged)"
        rows.append((name, _scaled(tokens, scale), f"{found.outputs[share]:.0f}"))
    rows += [
        ("reusable part of all prompts", f"{PUBLISHED_REUSE:.3f}", f"{found.reuse:.3f}"),
        ("requests with tools", _part(TOOL_REQUESTS), f"{found.tool_share:.3f}"),
        ("with several systems", _part(MULTI_SYSTEM_REQUESTS), f"{found.multi_system_share:.3f}"),
        ("requests with an image", _part(IMAGE_REQUESTS), f"{found.image_share:.3f}"),
    ]
    total = sum(bucket.weight for bucket in PROMPTS.buckets)
    for published, own in zip(PROMPTS.buckets, found.buckets, strict=False):
        rows.append(
            (
                f"prompts of {own.low}-{own.high}: part, reuse",
                f"{published.weight / total:.3f}, {published.reuse:.2f}",
                f"{own.requests / found.requests:.3f}, {own.reuse:.2f}",
            )
        )
    return rows


def _lengths_and_reuse(plan: Plan, tokens: Tokens) -> tuple[list[int], list[int]]:
    """For each request its tokens, and how many of them an earlier request begins with as well."""
    seen: set[bytes] = set()
    sizes, shared = [], []
    for session in plan.sessions:
        size = reused = 0
        running, fresh = hashlib.sha256(), False
        for text, count in _pieces(session, plan.salt_words, tokens):
            running.update(f"{len(text)}\0{text}".encode())
            key = running.digest()
            fresh = fresh or key not in seen
            seen.add(key)
            size += count
            reused += 0 if fresh else count
        sizes.append(size)
        shared.append(reused)
    return sizes, shared


def _pieces(session: Session, words: int, tokens: Tokens) -> Iterator[tuple[str, int]]:
    """What a prompt is made of, from its front, with the tokens of each piece."""
    if session.tools:
        yield tools_text(session.tools), tokens.count(tools_text(session.tools))
    salt = reference_salt(words)
    for message in session.turns[0].messages:
        text = message.content
        if message.parts:
            text = json.loads(text)[0]["text"]
        yield f"{message.role}\0{text}\0{message.extra}", tokens.count(salt + text)
        salt = ""


def _bucket(bucket: Bucket, sizes: Sequence[int], shared: Sequence[int]) -> BucketShape:
    inside = [i for i, size in enumerate(sizes) if bucket.low <= size <= bucket.high]
    whole = sum(sizes[i] for i in inside)
    reuse = sum(shared[i] for i in inside) / whole if whole else 0.0
    return BucketShape(bucket.low, bucket.high, len(inside), reuse)


def _percentiles(values: Sequence[int], shares: Iterable[int]) -> dict[int, float]:
    return {share: float(np.percentile(values, share)) for share in shares}


def _systems(session: Session) -> int:
    return sum(message.role == "system" for message in session.turns[0].messages)


def _share(plan: Plan, has: Callable[[Session], bool]) -> float:
    return sum(map(has, plan.sessions)) / len(plan.sessions)


def _scaled(tokens: int, scale: float) -> str:
    return f"{tokens * scale:.0f}"


def _part(requests: int) -> str:
    return f"{requests / PUBLISHED_REQUESTS:.3f}"

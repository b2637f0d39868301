"""Whether a load that still runs has shown enough.

A load may end early when what it offers has settled: the lengths of its prompts and answers, the
part that the prefix cache serves, and the rate at which requests come. It must not end early when a
gate is near, because there the last requests decide; nor before what was sent so far resembles the
whole plan, because the turns of a conversation grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tuner.score.gates import GateResult


@dataclass(frozen=True, slots=True)
class Counts:
    """What a load has come to at one moment. All counts run from its start.

    Attributes:
        requests: Requests that ended well.
        elapsed_s: Seconds since the load began.
        prompt_tokens: Their prompt tokens, cached ones included.
        cached_tokens: Those of them that the prefix cache served.
        output_tokens: Their generated tokens.
    """

    requests: int
    elapsed_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Offered:
    """What the whole plan offers, where its lengths are known beforehand.

    Attributes:
        requests: How many requests it has.
        prompt_tokens: Mean length of its prompts; None where nobody counted.
        output_tokens: Mean length of its answers; None where that is not known.
    """

    requests: int
    prompt_tokens: float | None = None
    output_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a load may end early.

    Attributes:
        least: Part of the plan's requests that is sent in any case.
        moments: How many of the last moments must agree.
        apart: Part of the plan's requests between two of these moments, at least.
        within: Part by which a mean length or the rate may move between them.
        hits: How far the cache hit rate may move between them.
        near: A gate whose margin is smaller than this keeps the load going.
    """

    least: float = 0.25
    moments: int = 3
    apart: float = 0.05
    within: float = 0.02
    hits: float = 0.01
    near: float = 0.10


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """Whether to stop, and why or why not, in one sentence."""

    stop: bool
    why: str


def may_stop(
    history: Sequence[Counts],
    offered: Offered,
    gates: Sequence[GateResult] = (),
    rule: StopRule | None = None,
) -> EarlyStop:
    """Decide whether a load has shown enough. Pure: counts in, answer out.

    Args:
        history: Running counts, oldest first; the last is now.
        offered: What the whole plan offers.
        gates: The gates, held against the figures of the load so far.
        rule: When a load may end early.
    """
    limits = rule or StopRule()
    if not history or history[-1].requests < max(1.0, limits.least * offered.requests):
        return EarlyStop(stop=False, why=f"less than {limits.least:.0%} of the load was sent")
    near = [g for g in gates if g.margin is None or abs(g.margin) < limits.near]
    if near:
        return EarlyStop(stop=False, why=f"{near[0].gate.name} is near its limit or not known yet")
    moments = _last_moments(history, limits, offered.requests)
    if len(moments) < limits.moments:
        return EarlyStop(stop=False, why="too few moments to compare")
    moving = _moving(moments, limits) or _unlike(moments[-1], offered, limits)
    if moving:
        return EarlyStop(stop=False, why=moving)
    part = history[-1].requests / offered.requests
    return EarlyStop(stop=True, why=f"lengths, cache hits and rate have settled after {part:.0%}")


def _last_moments(history: Sequence[Counts], limits: StopRule, planned: int) -> list[Counts]:
    """The last moments that are far enough apart, newest last."""
    apart = max(1.0, limits.apart * planned)
    chosen = [history[-1]]
    for moment in reversed(history):
        if len(chosen) == limits.moments:
            break
        if chosen[-1].requests - moment.requests >= apart and moment.requests > 0:
            chosen.append(moment)
    return chosen[::-1]


def _moving(moments: Sequence[Counts], limits: StopRule) -> str | None:
    """Which figure has not settled yet."""
    now = moments[-1]
    for name, figure in _FIGURES.items():
        last = figure(now)
        if any(abs(figure(m) - last) > limits.within * abs(last) for m in moments):
            return f"{name} has not settled"
    if any(abs(_hit_rate(m) - _hit_rate(now)) > limits.hits for m in moments):
        return "the cache hit rate has not settled"
    return None


def _unlike(now: Counts, offered: Offered, limits: StopRule) -> str | None:
    """Which length differs from that of the whole plan."""
    for name, whole, mine in (
        ("prompts", offered.prompt_tokens, now.prompt_tokens / now.requests),
        ("answers", offered.output_tokens, now.output_tokens / now.requests),
    ):
        if whole is not None and abs(mine - whole) > limits.within * whole:
            return f"{name} so far have {mine:.0f} tokens, those of the whole plan {whole:.0f}"
    return None


def _hit_rate(counts: Counts) -> float:
    return counts.cached_tokens / counts.prompt_tokens if counts.prompt_tokens else 0.0


_FIGURES: Mapping[str, Callable[[Counts], float]] = {
    "the length of prompts": lambda c: c.prompt_tokens / c.requests,
    "the length of answers": lambda c: c.output_tokens / c.requests,
    "the rate of requests": lambda c: c.requests / c.elapsed_s if c.elapsed_s > 0 else 0.0,
}

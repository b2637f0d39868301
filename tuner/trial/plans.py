"""From the workloads that a search space declares to plans that a client can send."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.load.lengths import Bucket, Buckets, Length, Skewed, Uniform, scaled
from tuner.load.plan import Plan
from tuner.load.tokens import Tokens
from tuner.load.workloads import conversations as shape
from tuner.spec import Load
from tuner.spec import workload as declared

_WHOLE_LOAD = 3600.0


def build_plans(loads: Sequence[Load], tokens: Tokens) -> dict[str, tuple[Plan, Plan]]:
    """The warm-up and the load of each workload.

    Args:
        loads: The workloads of a search space.
        tokens: The served tokenizer, for texts of exact length.
    """
    return {load.name: _plans(load, tokens) for load in loads}


def _plans(load: Load, tokens: Tokens) -> tuple[Plan, Plan]:
    match load.workload:
        case declared.Conversations():
            return _conversations(load.name, load.workload, tokens)
        case _:
            raise NotImplementedError(load.workload.kind)  # the loader refuses these kinds


def _conversations(name: str, wanted: declared.Conversations, tokens: Tokens) -> tuple[Plan, Plan]:
    asked = shape.Conversations(
        name=name,
        sessions=wanted.conversations,
        turns=_drawn(wanted.turns),
        concurrency=wanted.concurrency,
        system_tokens=_length(wanted.system_tokens, wanted.scale),
        tools=wanted.tools,
        tools_in=wanted.tools_in,
        growth=wanted.growth,
        user_tokens=_length(wanted.turn_tokens, wanted.scale),
        output_tokens=_length(wanted.output_tokens, wanted.scale),
        ignore_eos=wanted.ignore_eos,
        temperature=wanted.temperature,
        think_s=(wanted.think_time, wanted.think_time),
        request_timeout_s=wanted.request_timeout,
        load_timeout_s=wanted.time_limit or _WHOLE_LOAD,
    )
    warm = shape.warm_up(
        asked, seed=wanted.seed, tokens=tokens, sessions=wanted.warmup.conversations
    )
    return warm, shape.conversations(asked, seed=wanted.seed, tokens=tokens)


def _length(length: object, factor: float) -> Length:
    return scaled(_drawn(length), factor)


def _drawn(length: object) -> Length:
    match length:
        case int():
            return length
        case declared.Between():
            return Uniform(length.min, length.max)
        case declared.UniformTokens():
            return Uniform(length.min, length.max, log=length.shape == "log")
        case declared.SkewedTokens():
            return Skewed(length.median, length.p90, length.min, length.max)
        case declared.BucketTokens():
            return Buckets(tuple(Bucket(b.min, b.max, b.weight, b.reuse) for b in length.buckets))
        case _:
            raise TypeError(f"no length: {length!r}")

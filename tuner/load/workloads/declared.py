"""From the workloads that a file declares to plans that can be sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.errors import UserError
from tuner.load.lengths import Bucket, Buckets, Length, Skewed, Uniform, scaled
from tuner.load.plan import Plan
from tuner.load.tokens import Tokens
from tuner.load.workloads import conversations as talks
from tuner.load.workloads import dataset as files
from tuner.load.workloads import decode_curve as curve
from tuner.load.workloads import official_like as official
from tuner.load.workloads import replay as traces
from tuner.spec import workload as declared

_WHOLE_LOAD_S = 12 * 3600.0
"""Time for a load that declares no limit."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload, ready to be sent.

    Attributes:
        warm_up: Load of the same shape to send first; a plan without requests where none is wanted.
        levels: The plans to measure, one after another: one, but for a decode curve.
    """

    warm_up: Plan
    levels: tuple[Plan, ...]


def level_names(name: str, workload: declared.Workload) -> tuple[str, ...]:
    """The names of the plans that :func:`prepare` gives a workload: known before any is made."""
    if isinstance(workload, declared.DecodeCurve):
        return tuple(curve.level_name(name, c) for c in workload.concurrencies)
    return (name,)


def prepare(
    name: str, workload: declared.Workload, *, tokens: Tokens, folder: Path = Path()
) -> Prepared:
    """The plans of a workload.

    Args:
        name: Its name; it is in every record, and keeps its texts apart from other workloads'.
        workload: What was declared.
        tokens: The served tokenizer, for texts of exact lengths.
        folder: What relative paths in the workload are relative to.

    Raises:
        UserError: When a file of the workload cannot be used, or a key of it can do nothing.
        LengthUnreachable: When no text of a declared length can be built.
    """
    match workload:
        case declared.Conversations():
            return _conversations(name, workload, tokens)
        case declared.DecodeCurve():
            return _decode_curve(name, workload, tokens)
        case declared.OfficialLike():
            return _official_like(name, workload, tokens)
        case declared.Replay():
            return _replay(name, workload, tokens, folder)
        case declared.Dataset():
            return _dataset(name, workload, tokens, folder)


def _conversations(name: str, wanted: declared.Conversations, tokens: Tokens) -> Prepared:
    shape = talks.Conversations(
        name=name,
        sessions=wanted.conversations,
        turns=_drawn(wanted.turns),
        concurrency=wanted.concurrency,
        system_tokens=_length(wanted.system_tokens, wanted.scale),
        tools=wanted.tools,
        tools_in=wanted.tools_in,
        user_tokens=_length(wanted.turn_tokens, wanted.scale),
        growth=wanted.growth,
        output_tokens=_length(wanted.output_tokens, wanted.scale),
        ignore_eos=wanted.ignore_eos,
        temperature=wanted.temperature,
        think_s=(wanted.think_time, wanted.think_time),
        request_timeout_s=wanted.request_timeout,
        load_timeout_s=wanted.time_limit or _WHOLE_LOAD_S,
    )
    warm = wanted.warmup.conversations
    return Prepared(
        talks.warm_up(shape, seed=wanted.seed, tokens=tokens, sessions=warm),
        (talks.conversations(shape, seed=wanted.seed, tokens=tokens),),
    )


def _decode_curve(name: str, wanted: declared.DecodeCurve, tokens: Tokens) -> Prepared:
    shape = curve.DecodeCurve(
        name=name,
        concurrencies=wanted.concurrencies,
        rounds=wanted.rounds,
        prompt_tokens=_length(wanted.prompt_tokens, wanted.scale),
        output_tokens=declared.scaled(wanted.output_tokens, wanted.scale),
        ignore_eos=wanted.ignore_eos,
        temperature=wanted.temperature,
        request_timeout_s=wanted.request_timeout,
        load_timeout_s=wanted.time_limit or _WHOLE_LOAD_S,
    )
    warm = wanted.warmup.requests
    return Prepared(
        curve.warm_up(shape, seed=wanted.seed, tokens=tokens, requests=warm),
        curve.decode_curve(shape, seed=wanted.seed, tokens=tokens),
    )


def official_shape(name: str, wanted: declared.OfficialLike) -> official.OfficialLike:
    """The shape of a declared official-like workload, for its statistics."""
    prompts = _drawn(wanted.prompt_tokens)
    assert isinstance(prompts, Buckets)  # noqa: S101  (the declaration allows nothing else)
    return official.OfficialLike(
        name=name,
        requests=wanted.requests,
        concurrency=wanted.concurrency,
        scale=wanted.scale,
        prompt_tokens=prompts,
        output_tokens=_drawn(wanted.output_tokens),
        tools=wanted.tools,
        tool_share=wanted.tool_share,
        multi_system_share=wanted.multi_system_share,
        image_share=wanted.image_share,
        max_prompt_tokens=wanted.max_prompt_tokens,
        ignore_eos=wanted.ignore_eos,
        temperature=wanted.temperature,
        request_timeout_s=wanted.request_timeout,
        load_timeout_s=wanted.time_limit or _WHOLE_LOAD_S,
    )


def _official_like(name: str, wanted: declared.OfficialLike, tokens: Tokens) -> Prepared:
    shape = official_shape(name, wanted)
    warm = wanted.warmup.requests
    return Prepared(
        official.warm_up(shape, seed=wanted.seed, tokens=tokens, requests=warm),
        (official.official_like(shape, seed=wanted.seed, tokens=tokens),),
    )


def _replay(name: str, wanted: declared.Replay, tokens: Tokens, folder: Path) -> Prepared:
    shape = traces.Replay(
        file=folder / Path(wanted.file).expanduser(),
        name=name,
        mode=wanted.mode,
        window=wanted.concurrency or 1,
        limit=wanted.at_once,
        time_scale=wanted.time_scale,
        requests=wanted.requests,
        scale=wanted.scale,
        ignore_eos=wanted.ignore_eos,
        temperature=wanted.temperature,
        request_timeout_s=wanted.request_timeout,
        load_timeout_s=wanted.time_limit or _WHOLE_LOAD_S,
    )
    warm = wanted.warmup.requests
    return Prepared(
        traces.warm_up(shape, seed=wanted.seed, tokens=tokens, requests=warm),
        (traces.replay(shape, seed=wanted.seed, tokens=tokens),),
    )


def _dataset(name: str, wanted: declared.Dataset, tokens: Tokens, folder: Path) -> Prepared:
    if wanted.scale != 1.0 and wanted.output_tokens is None:
        raise UserError(
            f"workload {name}: scale does nothing to recorded texts",
            mend="leave scale out, or give output_tokens, which it scales",
        )
    output = wanted.output_tokens
    shape = files.Dataset(
        file=folder / Path(wanted.file).expanduser(),
        name=name,
        conversations=wanted.conversations,
        turns=wanted.turns,
        concurrency=wanted.concurrency,
        output_tokens=None if output is None else _length(output, wanted.scale),
        ignore_eos=wanted.ignore_eos,
        temperature=wanted.temperature,
        request_timeout_s=wanted.request_timeout,
        load_timeout_s=wanted.time_limit or _WHOLE_LOAD_S,
    )
    warm = wanted.warmup.conversations
    return Prepared(
        files.warm_up(shape, seed=wanted.seed, tokens=tokens, conversations=warm),
        (files.dataset(shape, seed=wanted.seed, tokens=tokens),),
    )


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

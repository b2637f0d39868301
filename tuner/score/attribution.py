"""Attribution: where a score comes from, and what would raise it.

A term's weight is not its contribution: in the platform's runs the output tokens, which weigh most,
brought 16 to 32 % of the score. And a gain pays in two ways, through the tokens that are counted
and through the wall time that they are divided by, so both are moved here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.load.record import Record
from tuner.score.columns import Columns, from_records
from tuner.score.distribution import Floats
from tuner.score.metrics import Metrics
from tuner.score.official import PUBLISHED, Weights


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of a weighted score, adding up to 1.

    Attributes:
        output: What the output tokens bring.
        uncached_input: What the uncached prompt tokens bring.
        cached: What the cached prompt tokens bring.
    """

    output: float
    uncached_input: float
    cached: float


@dataclass(frozen=True, slots=True)
class WallTime:
    """Parts of the wall time, adding up to 1.

    The time in which at least one request was under way is divided in proportion to the
    request-seconds spent before the first token, after it, and in requests that never had one.

    Attributes:
        prefill: Waiting for first tokens, queueing included.
        decode: From first tokens to ends.
        lost: In requests that never gave a token.
        idle: With no request under way.
    """

    prefill: float
    decode: float
    lost: float
    idle: float


@dataclass(frozen=True, slots=True)
class Gains:
    """What the score would gain, as a part of the score, for one gain in each phase.

    Attributes:
        gain: The gain looked at: 0.1 is 10 % more speed, or 10 % more cached tokens.
        prefill: For prefill that is faster by the gain.
        decode: For decoding that is faster by the gain.
        cache: For more cached tokens by the gain. It can be negative: a cached token is worth less
            than an uncached one, and pays only by the time it saves.
    """

    gain: float
    prefill: float
    decode: float
    cache: float


def shares(metrics: Metrics, weights: Weights = PUBLISHED) -> Shares | None:
    """What each term brings to the score; None where a term is not known or the score is 0."""
    output, uncached, cached = metrics.output_tokens, metrics.uncached_tokens, metrics.cached_tokens
    if output is None or uncached is None or cached is None:
        return None
    total = weights.apply(output, uncached, cached)
    if total <= 0:
        return None
    return Shares(
        output=weights.output * output / total,
        uncached_input=weights.uncached_input * uncached / total,
        cached=weights.cached * cached / total,
    )


def wall_time(records: Sequence[Record] | Columns, metrics: Metrics) -> WallTime | None:
    """How the wall time divides; None where the records have no times."""
    table = records if isinstance(records, Columns) else from_records(records)
    under_way = ~table.clock_faults & np.isfinite(table.sent) & np.isfinite(table.end)
    if metrics.wall_s is None or not under_way.any():
        return None
    started = under_way & np.isfinite(table.ttft_s)
    prefill = float(table.ttft_s[started].sum())
    decode = float((table.e2e_s - table.ttft_s)[started].sum())
    lost = float(table.e2e_s[under_way & ~started].sum())
    total = prefill + decode + lost
    if total <= 0:
        return None
    busy = min(1.0, _covered(table.sent[under_way], table.end[under_way]) / metrics.wall_s)
    return WallTime(
        prefill=busy * prefill / total,
        decode=busy * decode / total,
        lost=busy * lost / total,
        idle=1 - busy,
    )


def gains(
    metrics: Metrics, time: WallTime, weights: Weights = PUBLISHED, *, gain: float = 0.1
) -> Gains | None:
    """What a gain in each phase would add to the score.

    The model is a closed loop over the same requests: a phase that is faster shortens its part of
    the wall time and no other, and prefill takes time in proportion to the uncached tokens. With
    one request at a time this is exact; with several it is an estimate that leaves out what they
    do to each other.

    Returns:
        The gains; None where the tokens are not known.
    """
    output, uncached, cached = metrics.output_tokens, metrics.uncached_tokens, metrics.cached_tokens
    if output is None or uncached is None or cached is None:
        return None
    before = weights.apply(output, uncached, cached)
    if before <= 0:
        return None
    saved = 1 - 1 / (1 + gain)
    moved = min(gain * cached, uncached)
    after = weights.apply(output, uncached - moved, cached + moved)
    spared = time.prefill * moved / uncached if uncached else 0.0
    return Gains(
        gain=gain,
        prefill=1 / (1 - time.prefill * saved) - 1,
        decode=1 / (1 - time.decode * saved) - 1,
        cache=after / before / (1 - spared) - 1 if spared < 1 else 0.0,
    )


def _covered(starts: Floats, ends: Floats) -> float:
    """Seconds in which at least one interval is open."""
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    gaps = np.clip(starts[1:] - reach[:-1], 0, None)
    return float(reach[-1] - starts[0] - gaps.sum())

"""Goodput: the requests that were served well enough to be worth something."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from tuner.score.columns import Columns, Mask


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request must keep to count; a limit that is None is not looked at.

    Attributes:
        ttft_s: Most seconds to the first token.
        tpot_s: Most seconds a token after the first; an answer of one token keeps it.
        e2e_s: Most seconds from the send to the end.
        output_tps: Least output tokens a second of the request, TTFT included.

    Raises:
        ValueError: When a limit is not a finite number above 0, or none is given.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    output_tps: float | None = None

    def __post_init__(self) -> None:
        given = [v for f in fields(self) if (v := getattr(self, f.name)) is not None]
        if not given or any(not math.isfinite(v) or v <= 0 for v in given):
            raise ValueError("limits for goodput must be finite numbers above 0, at least one")


@dataclass(frozen=True, slots=True)
class Goodput:
    """How much of a load was served within its limits.

    Attributes:
        count: Successes within every limit.
        share: The same as a part of the planned requests; None where nothing was planned.
        rps: The same a second of wall time; None where there is no wall time.
    """

    count: int
    share: float | None
    rps: float | None


def within(table: Columns, limits: Limits) -> Mask:
    """The successes that keep every limit. What is not known, or has a clock at fault, does not."""
    kept = table.ok & ~table.clock_faults
    if limits.ttft_s is not None:
        kept &= table.ttft_s <= limits.ttft_s
    if limits.e2e_s is not None:
        kept &= table.e2e_s <= limits.e2e_s
    if limits.tpot_s is not None:
        after_first = np.maximum(table.output_tokens - 1, 1)
        one_token = table.output_tokens <= 1
        kept &= one_token | ((table.e2e_s - table.ttft_s) / after_first <= limits.tpot_s)
    if limits.output_tps is not None:
        kept &= table.output_tokens >= limits.output_tps * table.e2e_s
    return kept


def goodput(table: Columns, limits: Limits, *, planned: int, wall_s: float | None) -> Goodput:
    """How much of a load was served within its limits.

    Args:
        table: Every request.
        limits: What a request must keep.
        planned: How many requests were planned.
        wall_s: Wall time of the load.
    """
    count = int(within(table, limits).sum())
    return Goodput(
        count=count,
        share=count / planned if planned else None,
        rps=count / wall_s if wall_s else None,
    )

"""A load by prompt length, so that one sees which prompts make the P90."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.load.record import Record
from tuner.score.columns import Columns, from_records
from tuner.score.distribution import Distribution, percentile

PLATFORM_EDGES = tuple(k * 1024 for k in (6, 16, 32, 64, 128, 256))
"""The official platform's edges in tokens: <6k, 6k-16k, 16k-32k, 32k-64k, 64k-128k, 128k-256k, >=256k.

A k is 1024 tokens: so counted, the requests of its runs 655 and 694 fall as its log says.
"""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The successes whose prompts have a length in ``[low, high)`` tokens.

    Attributes:
        low: The smallest prompt length in the bucket.
        high: The first length that is too long for it; None where there is no end.
        count: Successes in it.
        share: Its share of all successes.
        tail_share: Its share of the successes whose TTFT is at or above the P90 of all; None where
            no TTFT is known.
        ttft_s: Seconds to the first token.
        e2e_s: Seconds from the send to the end.
        request_output_tps: Output tokens over ``e2e_s``, request by request.
        cache_hit_rate: Cached over prompt tokens; None where cached tokens are not known.
    """

    low: int
    high: int | None
    count: int
    share: float
    tail_share: float | None
    ttft_s: Distribution | None
    e2e_s: Distribution | None
    request_output_tps: Distribution | None
    cache_hit_rate: float | None

    @property
    def label(self) -> str:
        """The bucket's name as the platform writes it: ``<6k``, ``6k-16k``, ``>=256k``."""
        if self.high is None:
            return f">={_tokens(self.low)}"
        return f"{_tokens(self.low)}-{_tokens(self.high)}" if self.low else f"<{_tokens(self.high)}"


def by_prompt_length(
    records: Sequence[Record] | Columns, edges: Sequence[int] = PLATFORM_EDGES
) -> tuple[Bucket, ...]:
    """The successes by prompt length, shortest first; empty buckets are told too.

    Args:
        records: Every request of the load.
        edges: Where one bucket ends and the next begins, in tokens, ascending.

    Raises:
        ValueError: When the edges do not ascend or are not above 0.
    """
    if not edges or list(edges) != sorted(set(edges)) or edges[0] <= 0:
        raise ValueError("bucket edges must be above 0 and ascend")
    table = records if isinstance(records, Columns) else from_records(records)
    chosen = table.select(table.ok & np.isfinite(table.prompt_tokens))
    forwards = ~chosen.clock_faults
    ttft = np.where(forwards, chosen.ttft_s, np.nan)
    e2e = np.where(forwards, chosen.e2e_s, np.nan)
    known = ttft[np.isfinite(ttft)]
    tail = ttft >= percentile(known, 90) if known.size else np.zeros(len(chosen), dtype=np.bool_)
    request_tps = chosen.output_tokens / np.where(e2e > 0, e2e, np.nan)
    cached_known = bool(np.isfinite(chosen.cached_tokens).any())
    place = np.digitize(chosen.prompt_tokens, edges)
    buckets = []
    for index, low in enumerate((0, *edges)):
        mask = place == index
        count = int(mask.sum())
        prompt = float(chosen.prompt_tokens[mask].sum())
        cached = float(np.nan_to_num(chosen.cached_tokens[mask]).sum())
        buckets.append(
            Bucket(
                low=low,
                high=edges[index] if index < len(edges) else None,
                count=count,
                share=count / len(chosen) if len(chosen) else 0.0,
                tail_share=float((mask & tail).sum() / tail.sum()) if known.size else None,
                ttft_s=Distribution.of(ttft[mask]),
                e2e_s=Distribution.of(e2e[mask]),
                request_output_tps=Distribution.of(request_tps[mask]),
                cache_hit_rate=cached / prompt if cached_known and prompt > 0 else None,
            )
        )
    return tuple(buckets)


def _tokens(count: int) -> str:
    return f"{count // 1024}k" if count % 1024 == 0 else str(count)

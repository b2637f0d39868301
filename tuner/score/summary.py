"""Everything that can be said of one load, ready to be printed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuner.load.record import Record
from tuner.score.attribution import Gains, Shares, WallTime, gains, shares, wall_time
from tuner.score.buckets import PLATFORM_EDGES, Bucket, by_prompt_length
from tuner.score.columns import Columns, from_records
from tuner.score.figures import figures, why_missing
from tuner.score.goodput import Limits
from tuner.score.measure import measure
from tuner.score.metrics import Metrics
from tuner.score.profile import OFFICIAL, Profile
from tuner.score.rank import Standing, standing


@dataclass(frozen=True, slots=True)
class Summary:
    """One load: its metrics, held against a profile, and where they come from.

    Attributes:
        profile: The profile that it was scored with.
        metrics: The metrics.
        standing: Its figures, held against the gates.
        missing: For each figure that could not be had, why.
        buckets: The successes by prompt length.
        shares: What each term brings to the score; None where a term is not known.
        wall_time: How the wall time divides; None where there are no times.
        gains: What a gain in each phase would add; None where it cannot be known.
    """

    profile: Profile
    metrics: Metrics
    standing: Standing
    missing: dict[str, str]
    buckets: tuple[Bucket, ...]
    shares: Shares | None
    wall_time: WallTime | None
    gains: Gains | None

    def as_json(self) -> dict[str, Any]:
        """The summary as JSON-ready data."""
        metrics = self.metrics
        return {
            "profile": self.profile.name,
            "standing": self.standing.tier.name.lower(),
            "score": self.standing.score,
            "population": {
                "planned": metrics.planned,
                "attempted": metrics.attempted,
                "succeeded": metrics.succeeded,
                "errors": dict(metrics.error_classes),
                "finish_reasons": dict(metrics.finish_reasons),
                "faults": dict(metrics.faults),
            },
            "tokens": {
                "prompt": metrics.prompt_tokens,
                "uncached": metrics.uncached_tokens,
                "cached": metrics.cached_tokens,
                "output": metrics.output_tokens,
                "reasoning": metrics.reasoning_tokens,
            },
            "figures": dict(self.standing.figures),
            "missing": self.missing,
            "gates": [
                {
                    "figure": result.gate.figure,
                    "limit": result.gate.limit,
                    "at_least": result.gate.at_least,
                    "value": result.value,
                    "outcome": result.outcome.value,
                    "margin": result.margin,
                }
                for result in self.standing.gates
            ],
            "buckets": [{"label": b.label, **dataclasses.asdict(b)} for b in self.buckets],
            "shares": _plain(self.shares),
            "wall_time": _plain(self.wall_time),
            "gains": _plain(self.gains),
        }


def summarise(
    records: Sequence[Record] | Columns,
    profile: Profile = OFFICIAL,
    *,
    wall_s: float | None = None,
    planned: int | None = None,
    cached_reported: bool | None = None,
    limits: Limits | None = None,
    edges: Sequence[int] = PLATFORM_EDGES,
) -> Summary:
    """Measure a load and hold it against a profile.

    Args:
        records: Every request that was planned. Of an open loop, columns whose latencies start when
            a request was due (:meth:`~tuner.score.columns.Columns.since`).
        profile: The weights and gates.
        wall_s: As for :func:`tuner.score.measure.measure`.
        planned: As for :func:`tuner.score.measure.measure`.
        cached_reported: As for :func:`tuner.score.measure.measure`.
        limits: As for :func:`tuner.score.measure.measure`.
        edges: Edges of the length buckets in tokens.

    Raises:
        ValueError: When ``planned`` is less than the number of records.
    """
    table = records if isinstance(records, Columns) else from_records(records)
    metrics = measure(
        table, wall_s=wall_s, planned=planned, cached_reported=cached_reported, limits=limits
    )
    found = figures(metrics, profile.weights)
    time = wall_time(table, metrics)
    return Summary(
        profile=profile,
        metrics=metrics,
        standing=standing(found, profile.gates),
        missing={n: why_missing(n, metrics) for n, value in found.items() if value is None},
        buckets=by_prompt_length(table, edges),
        shares=shares(metrics, profile.weights),
        wall_time=time,
        gains=None if time is None else gains(metrics, time, profile.weights),
    )


def _plain(part: Shares | WallTime | Gains | None) -> dict[str, float] | None:
    return None if part is None else dataclasses.asdict(part)

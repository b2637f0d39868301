"""Who won, by how much, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from tuner.store.rows import Origin, TrialRow

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Comparison:
    """One finalist against the baseline, from measurements made in turns.

    Attributes:
        number: The finalist's trial.
        ratios: Finalist's score over the baseline's, one a block.
        ratio: Their geometric mean.
        low: Lower end of its 95 % interval; None with fewer than two blocks.
        high: Upper end.
    """

    number: int
    ratios: tuple[float, ...]
    ratio: float | None
    low: float | None
    high: float | None

    @property
    def better(self) -> bool:
        """Whether the whole interval lies above 1."""
        return self.low is not None and self.low > 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """What a study came to.

    Attributes:
        baseline: Number of the baseline's trial.
        winner: Number of the trial to deploy: a finalist, or the baseline where none is clearly better.
        clear: Whether a finalist beat the baseline for sure.
        comparisons: Each finalist against the baseline.
        drift: The baseline's last score over its first in the repeats; None with fewer than two.
    """

    baseline: int
    winner: int
    clear: bool
    comparisons: tuple[Comparison, ...]
    drift: float | None

    def as_json(self) -> dict[str, Any]:
        """The decision as JSON-ready data."""
        return {
            "baseline": self.baseline,
            "winner": self.winner,
            "clear": self.clear,
            "drift": self.drift,
            "comparisons": [
                {
                    "number": c.number,
                    "ratios": list(c.ratios),
                    "ratio": c.ratio,
                    "low": c.low,
                    "high": c.high,
                }
                for c in self.comparisons
            ],
        }


def decide(trials: Sequence[TrialRow], finalists: Sequence[int]) -> Decision:
    """Decide from the repeats alone: the search's own scores chose who was repeated, no more."""
    base = next(t for t in trials if t.origin is Origin.BASELINE)
    repeats = {
        (t.repeats, t.block): t.score
        for t in trials
        if t.origin is Origin.REPEAT and t.feasible is not None
    }
    comparisons = tuple(_compare(base.number, number, repeats) for number in finalists)
    best = max(comparisons, key=lambda c: c.ratio or 0.0, default=None)
    clear = best is not None and best.better
    mine = [
        s
        for (of, _), s in sorted(repeats.items(), key=lambda i: i[0][1] or 0)
        if of == base.number and s
    ]
    return Decision(
        baseline=base.number,
        winner=best.number if best is not None and clear else base.number,
        clear=clear,
        comparisons=comparisons,
        drift=mine[-1] / mine[0] if len(mine) > 1 else None,
    )


def _compare(
    base: int, number: int, repeats: dict[tuple[int | None, int | None], float | None]
) -> Comparison:
    blocks = sorted({block for of, block in repeats if of == number and block is not None})
    ratios = [
        mine / theirs
        for block in blocks
        if (mine := repeats.get((number, block))) and (theirs := repeats.get((base, block)))
    ]
    if not ratios:
        return Comparison(number, (), None, None, None)
    logs = [math.log(r) for r in ratios]
    mean = sum(logs) / len(logs)
    if len(logs) < 2:
        return Comparison(number, tuple(ratios), math.exp(mean), None, None)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logs) / (len(logs) - 1))
    half = (
        float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(logs) - 1)) * deviation / math.sqrt(len(logs))
    )
    return Comparison(
        number, tuple(ratios), math.exp(mean), math.exp(mean - half), math.exp(mean + half)
    )

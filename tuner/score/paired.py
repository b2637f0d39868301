"""Two deployments compared in pairs, with an interval and with the drift taken out.

The machine drifts while a study runs, so candidate and baseline are measured in turn, in blocks of
A-B-B-A with a restart before each run. Within a block both arms stand at the same mean position, so
a drift that is steady cancels; what differs between blocks is taken out block by block.

The model is linear on the log scale: a level for each block, one slope within the blocks, and the
effect of the arm. Its least squares give the ratio of the two deployments and, by Student's t, an
interval. For whole blocks the ratio is that of the geometric means within the blocks. In
simulations (``benchmarks/decisions``) the interval keeps its level under steady drift and a random
walk, and nearly so where one arm is five times as noisy as the other.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from tuner.score.distribution import Floats
from tuner.score.figures import Better
from tuner.score.noise import logs


class Arm(enum.StrEnum):
    """Which deployment a run measured."""

    BASELINE = "A"
    CANDIDATE = "B"


ABBA = (Arm.BASELINE, Arm.CANDIDATE, Arm.CANDIDATE, Arm.BASELINE)
"""The order of one block."""

_ROUNDING = 1e-9
"""The least standard error: equal measurements differ by rounding, which is no effect."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement of one deployment, freshly started.

    Attributes:
        arm: Baseline or candidate.
        value: The figure that is compared, above 0.
    """

    arm: Arm
    value: float


@dataclass(frozen=True, slots=True)
class Drift:
    """How the baseline moved from its first run to its last.

    Attributes:
        change: Last over first by the line through the baseline's runs, minus 1: -0.05 is a loss
            of 5 % over the whole comparison.
        low: Lower end of the interval; None with fewer than three runs.
        high: Upper end.
    """

    change: float
    low: float | None
    high: float | None

    @property
    def clear(self) -> bool:
        """Whether the interval lies off 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


class Finding(enum.StrEnum):
    """What a comparison says of the candidate."""

    BETTER = "better"
    WORSE = "worse"
    NO_CLEAR_WINNER = "no clear winner"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The candidate against the baseline.

    Attributes:
        ratio: Candidate over baseline; 1.05 is 5 % more.
        low: Lower end of the interval of the ratio.
        high: Upper end of the interval of the ratio.
        confidence: Confidence of the interval.
        runs: Runs in all.
        df: Degrees of freedom behind the interval.
        sigma: Noise of one run on the log scale, from what the model leaves over.
        drift: How the baseline moved meanwhile.
        better: Which way the figure is better.
    """

    ratio: float
    low: float
    high: float
    confidence: float
    runs: int
    df: int
    sigma: float
    drift: Drift
    better: Better

    @property
    def finding(self) -> Finding:
        """Better or worse only where the whole interval lies on that side of 1."""
        if self.low <= 1 <= self.high:
            return Finding.NO_CLEAR_WINNER
        higher = self.low > 1
        return Finding.BETTER if higher == (self.better == "higher") else Finding.WORSE

    def __str__(self) -> str:
        low, middle, high = (100 * (x - 1) for x in (self.low, self.ratio, self.high))
        return (
            f"{middle:+.1f} % ({100 * self.confidence:.4g} % interval {low:+.1f} to {high:+.1f} %), "
            f"{self.finding}"
        )


def compare(
    runs: Sequence[Run], *, confidence: float = 0.95, better: Better = "higher"
) -> Comparison:
    """Compare the candidate's runs with the baseline's.

    Args:
        runs: All runs in the order in which they were made, in blocks of :data:`ABBA`; the last
            block may be cut short.
        confidence: Confidence of the interval.
        better: Which way the figure is better.

    Raises:
        ValueError: When a run is out of order or not above 0, or the runs are fewer than a block.
    """
    if len(runs) < len(ABBA):
        raise ValueError(f"a comparison needs a block of {len(ABBA)} runs, not {len(runs)}")
    if any(run.arm is not ABBA[i % len(ABBA)] for i, run in enumerate(runs)):
        raise ValueError("the runs are not in blocks of A-B-B-A")
    values = logs([run.value for run in runs])
    effect, error, df, sigma = _effect(values)
    reach = float(special.stdtrit(df, (1 + confidence) / 2)) * error
    return Comparison(
        ratio=math.exp(effect),
        low=_exp(effect - reach),
        high=_exp(effect + reach),
        confidence=confidence,
        runs=len(runs),
        df=df,
        sigma=sigma,
        drift=_drift(values, confidence),
        better=better,
    )


def _effect(values: Floats) -> tuple[float, float, int, float]:
    """Effect of the arm, its standard error, degrees of freedom and the noise of one run."""
    design, inverse, df = _model(values.size)
    coefficients = inverse @ values
    residual = values - design @ coefficients
    sigma = math.sqrt(float(residual @ residual) / df)
    error = max(sigma * float(np.linalg.norm(inverse[-1])), _ROUNDING)
    return float(coefficients[-1]), error, df, sigma


@lru_cache(maxsize=64)
def _model(runs: int) -> tuple[Floats, Floats, int]:
    """Design matrix of so many runs, its pseudo-inverse, and the degrees of freedom left over."""
    block, place = np.divmod(np.arange(runs), len(ABBA))
    design = np.column_stack(
        [
            *(block == b for b in range(int(block.max()) + 1)),
            place - 1.5,
            np.isin(place, [i for i, arm in enumerate(ABBA) if arm is Arm.CANDIDATE]),
        ]
    ).astype(np.float64)
    inverse = np.linalg.pinv(design).astype(np.float64)
    return design, inverse, runs - int(np.linalg.matrix_rank(design))


def _drift(values: Floats, confidence: float) -> Drift:
    index = np.arange(values.size)
    chosen = np.isin(index % len(ABBA), [i for i, a in enumerate(ABBA) if a is Arm.BASELINE])
    at, found = index[chosen].astype(np.float64), values[chosen]
    span = float(at[-1] - at[0])
    centred = at - at.mean()
    slope = float(centred @ found / (centred @ centred))
    df = found.size - 2
    change = _exp(slope * span) - 1
    if df < 1:
        return Drift(change, None, None)
    residual = found - found.mean() - slope * centred
    error = math.sqrt(float(residual @ residual) / df / float(centred @ centred))
    reach = float(special.stdtrit(df, (1 + confidence) / 2)) * error
    low, high = (_exp((slope + sign * reach) * span) - 1 for sign in (-1, 1))
    return Drift(change, low, high)


def _exp(value: float) -> float:
    """The exponential, infinite where it is too large for a float."""
    return math.exp(value) if value < 700 else math.inf

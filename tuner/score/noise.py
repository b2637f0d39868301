"""The study's own noise, from measuring one and the same deployment again and again (A/A).

Scores, rates and times are positive and their errors go with their size, so everything here is on
the log scale: a noise of 0.02 means that two measurements of one deployment differ by about 2 % of
their size. Small figures on the log scale read as parts: 0.02 is 2 %.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from tuner.score.distribution import Floats


@dataclass(frozen=True, slots=True)
class Noise:
    """How much measurements of one deployment differ.

    Attributes:
        sigma: Standard deviation of the logarithm of one measurement.
        df: Degrees of freedom behind it.
    """

    sigma: float
    df: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Where the true sigma lies, from the chi-squared distribution of the variance.

        Wide for few measurements: with 2 degrees of freedom the upper end is 6 times sigma.
        """
        tail = (1 - confidence) / 2
        squares = self.sigma**2 * self.df
        low = math.sqrt(squares / float(special.chdtri(self.df, tail)))
        high = math.sqrt(squares / float(special.chdtri(self.df, 1 - tail)))
        return low, high

    def bound(self, error: float, runs: int, others: int | None = None) -> float:
        """By how much a mean, or a difference of two means, may be off by chance.

        Args:
            error: Chance that it is off by more, in one direction.
            runs: Measurements behind the mean.
            others: Measurements behind the mean that it is compared to; None for a fixed figure.

        Returns:
            The bound on the log scale, from Student's t distribution.
        """
        spread = 1 / runs + (1 / others if others is not None else 0.0)
        return float(special.stdtrit(self.df, 1 - error)) * self.sigma * math.sqrt(spread)

    @property
    def informative(self) -> float:
        """The difference that two single measurements must have to say which is better.

        Twice the standard deviation of a difference, ``2 * sqrt(2) * sigma``. Ranks of closer pairs
        are mostly noise, and a rank correlation is taken over informative pairs only.
        """
        return 2 * math.sqrt(2) * self.sigma


def noise(values: Sequence[float]) -> Noise:
    """The noise of repeated measurements of one deployment.

    Raises:
        ValueError: When there are fewer than two, or one is not above 0.
    """
    return pooled_noise([values])


def pooled_noise(groups: Iterable[Sequence[float]]) -> Noise:
    """The noise within groups, each of them measurements of one deployment.

    Groups of one measurement say nothing about noise and are passed over.

    Raises:
        ValueError: When no group has two measurements, or one is not above 0.
    """
    squares, df = 0.0, 0
    for group in groups:
        found = logs(group)
        if found.size > 1:
            squares += float(((found - found.mean()) ** 2).sum())
            df += int(found.size) - 1
    if df == 0:
        raise ValueError("noise needs at least two measurements of one deployment")
    return Noise(sigma=math.sqrt(squares / df), df=df)


def logs(values: Sequence[float]) -> Floats:
    """The logarithms of measurements.

    Raises:
        ValueError: When one is not above 0 or not finite.
    """
    found = np.array(values, dtype=np.float64)
    if not (np.isfinite(found) & (found > 0)).all():
        raise ValueError("measurements that are compared by their ratio must be above 0")
    return np.log(found)


def informative_pairs(values: Mapping[str, float], of: Noise) -> Iterator[tuple[str, str]]:
    """The pairs whose difference is larger than the noise allows, the higher one first."""
    for one, other in itertools.combinations(values, 2):
        low, high = sorted((one, other), key=lambda name: values[name])
        if math.log(values[high] / values[low]) > of.informative:
            yield high, low

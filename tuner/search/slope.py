"""The slope of a constraint over the space, learnt from graded violations.

TPE sorts trials into feasible and not; how far over the edge one was, it does not use. But a
violation that is graded (asked over available, in shares) has a slope, and a few points of it say
where the edge is. So a small ridge regression is fitted to each constraint that was seen on both
sides of 0, and the sampler prefers candidates that it expects on the right side, by one deviation:
far from all that was tried the edge is not known, and a launch is dear. It is a preference: a
candidate is never ruled out, and as more is known around it the edge itself is tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.spec.axes import Assignment, Axis

_RIDGE = 1e-2
_LEAST = 2
"""Trials before a slope is believed at all."""
_CAUTION = 1.0
"""Deviations by which a candidate is to be on the right side."""
_NOISE = 0.05
"""The least deviation of one violation from the slope, in shares: a slope through few points fits them all."""


@dataclass(frozen=True, slots=True)
class Line:
    """One fitted constraint.

    Attributes:
        weights: Its coefficients.
        noise: The deviation of one violation from it.
    """

    weights: NDArray[np.float64]
    noise: float


@dataclass(frozen=True, slots=True)
class Slope:
    """Fitted violations of several constraints.

    Attributes:
        axes: The axes of the space.
        lines: The fitted constraints, by name.
        spread: Covariance of the coefficients for a noise of 1; the same for all, as the points are.
    """

    axes: tuple[Axis, ...]
    lines: Mapping[str, Line]
    spread: NDArray[np.float64]

    def worst(self, point: Assignment) -> float:
        """The largest violation to reckon with at a point; at most 0 where it should be feasible.

        0 where nothing is known, too.
        """
        if not self.lines:
            return 0.0
        row = features(self.axes, point)
        unknown = _CAUTION * math.sqrt(max(0.0, float(row @ self.spread @ row)))
        return max(float(row @ each.weights) + each.noise * unknown for each in self.lines.values())


def fit(axes: Sequence[Axis], told: Sequence[tuple[Assignment, Mapping[str, float]]]) -> Slope:
    """Fit the slopes to what was told so far.

    Args:
        axes: The axes of the space.
        told: Points and their violations by name.
    """
    names = sorted({name for _, violations in told for name in violations})
    lines: dict[str, Line] = {}
    if len(told) < _LEAST:
        return Slope(tuple(axes), lines, np.zeros((0, 0)))
    rows = np.array([features(axes, point) for point, _ in told])
    spread = _spread(rows)
    for name in names:
        seen = np.array([violations[name] for _, violations in told])
        if seen.min() < 0 < seen.max():
            weights = (spread @ rows.T @ seen).astype(np.float64)
            missed = float(np.sqrt(np.mean((seen - rows @ weights) ** 2)))
            lines[name] = Line(weights, max(_NOISE, missed))
    return Slope(tuple(axes), lines, spread)


def features(axes: Sequence[Axis], point: Assignment) -> NDArray[np.float64]:
    """A point as numbers: 1, then for each axis its place in [0, 1] and the place's square, or one-hot."""
    found = [1.0]
    for axis in axes:
        value = point.get(axis.name)
        if axis.kind == "categorical":
            found += [float(value == choice) for choice in range(int(axis.high) + 1)]
        else:
            place = 0.0 if value is None else _place(axis, value)
            found += [float(value is not None), place, place**2]
    return np.array(found)


def _place(axis: Axis, value: float) -> float:
    low, high = float(axis.low), float(axis.high)
    if high <= low:
        return 0.0
    if axis.log:
        return float(np.log(value / low) / np.log(high / low))
    return (value - low) / (high - low)


def _spread(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of a ridge regression's normal matrix."""
    penalty = _RIDGE * np.eye(rows.shape[1])
    penalty[0, 0] = 1e-9  # the level is free
    return np.linalg.inv(rows.T @ rows + penalty).astype(np.float64)

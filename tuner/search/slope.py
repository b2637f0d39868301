"""The slope of a constraint over the space, learnt from graded violations.

TPE sorts trials into feasible and not; how far over the edge one was, it does not use. But a
violation that is graded (asked over available, in shares) has a slope, and a few points of it say
where the edge is. So a small ridge regression is fitted to each constraint that was seen on both
sides of 0, and the sampler prefers candidates that it expects on the right side. It is a
preference: a candidate is never ruled out, and the edge itself is always tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.spec.axes import Assignment, Axis

_RIDGE = 1e-2
_LEAST = 4
"""Trials before a slope is believed at all."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Fitted violations of several constraints.

    Attributes:
        axes: The axes of the space.
        weights: Coefficients of each constraint, by name.
    """

    axes: tuple[Axis, ...]
    weights: Mapping[str, NDArray[np.float64]]

    def worst(self, point: Assignment) -> float:
        """The largest violation that is expected of a point; at most 0 where it should be feasible.

        0 where nothing is known, too.
        """
        if not self.weights:
            return 0.0
        row = features(self.axes, point)
        return max(float(row @ weights) for weights in self.weights.values())


def fit(axes: Sequence[Axis], told: Sequence[tuple[Assignment, Mapping[str, float]]]) -> Slope:
    """Fit the slopes to what was told so far.

    Args:
        axes: The axes of the space.
        told: Points and their violations by name.
    """
    names = sorted({name for _, violations in told for name in violations})
    weights = {}
    if len(told) >= _LEAST:
        rows = np.array([features(axes, point) for point, _ in told])
        for name in names:
            seen = np.array([violations[name] for _, violations in told])
            if seen.min() < 0 < seen.max():
                weights[name] = _ridge(rows, seen)
    return Slope(tuple(axes), weights)


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


def _ridge(rows: NDArray[np.float64], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    penalty = _RIDGE * np.eye(rows.shape[1])
    penalty[0, 0] = 1e-9  # the level is free
    found = np.linalg.solve(rows.T @ rows + penalty, rows.T @ seen)
    return found.astype(np.float64)

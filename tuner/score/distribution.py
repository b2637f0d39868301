"""A distribution told in a few figures, with percentiles by linear interpolation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""A column of figures; a figure that is not known is NaN and never leaves this room as such."""

PERCENTILES = (10, 50, 90, 99)


def percentile(values: Floats, q: float) -> float:
    """The q-th percentile by linear interpolation between the closest ranks.

    The value at rank ``(n - 1) * q / 100`` of the sorted figures, which is numpy's default and the
    definition that reproduces the official platform's P10.

    Args:
        values: At least one figure, all finite, in any order.
        q: From 0 to 100.

    Raises:
        ValueError: When there is no figure, or q is out of range.
    """
    if values.size == 0:
        raise ValueError("a percentile of no figures is not defined")
    return float(np.percentile(values, q, method="linear"))


@dataclass(frozen=True, slots=True)
class Distribution:
    """Figures of one kind over the requests that have them.

    Attributes:
        count: How many requests have the figure.
        mean: Their arithmetic mean.
        p10: 10th percentile, by linear interpolation like the others.
        p50: Median.
        p90: 90th percentile.
        p99: 99th percentile.
        minimum: The smallest.
        maximum: The largest.
        exact: False where the percentiles come from a histogram (see :mod:`tuner.score.intervals`).
    """

    count: int
    mean: float
    p10: float
    p50: float
    p90: float
    p99: float
    minimum: float
    maximum: float
    exact: bool = True

    @classmethod
    def of(cls, values: Floats) -> Distribution | None:
        """The distribution of the finite figures among ``values``; None where there is none."""
        known = values[np.isfinite(values)]
        if known.size == 0:
            return None
        p10, p50, p90, p99 = (float(p) for p in np.percentile(known, PERCENTILES, method="linear"))
        return cls(
            count=int(known.size),
            mean=float(known.mean()),
            p10=p10,
            p50=p50,
            p90=p90,
            p99=p99,
            minimum=float(known.min()),
            maximum=float(known.max()),
        )

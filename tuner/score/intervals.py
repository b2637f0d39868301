"""Times between chunks, of which a load has hundreds for each request.

Up to :data:`EXACT` of them are kept and give exact percentiles. Beyond that they are counted in
bins that are 0.1 % wide, so that a file of any size is summed up in a few hundred kilobytes.
"""

from __future__ import annotations

import math

import numpy as np

from tuner.score.distribution import PERCENTILES, Distribution, Floats

EXACT = 4_000_000
"""How many intervals are kept as they are (32 MB); from there on a histogram takes over."""

_LOWEST = 1e-7
_HIGHEST = 1e6
_WIDTH = 1e-3
_BINS = math.ceil(math.log(_HIGHEST / _LOWEST) / math.log1p(_WIDTH))


class Intervals:
    """Gathers intervals in seconds, in batches, and tells their distribution.

    Args:
        exact: How many to keep as they are before a histogram takes over.
    """

    def __init__(self, exact: int = EXACT) -> None:
        self._exact = exact
        self._kept: list[Floats] = []
        self._bins = np.zeros(_BINS, dtype=np.int64)
        self._binned = False
        self.count = 0
        self._total = 0.0
        self._minimum = math.inf
        self._maximum = 0.0

    def add(self, intervals: Floats) -> None:
        """Take a batch of intervals, none of them negative."""
        if intervals.size == 0:
            return
        self.count += int(intervals.size)
        self._total += float(intervals.sum())
        self._minimum = min(self._minimum, float(intervals.min()))
        self._maximum = max(self._maximum, float(intervals.max()))
        self._kept.append(intervals)
        self._binned = self._binned or self.count > self._exact
        if self._binned:
            for kept in self._kept:
                self._bin(kept)
            self._kept.clear()

    def _bin(self, intervals: Floats) -> None:
        clipped = np.clip(intervals, _LOWEST, _HIGHEST)
        index = np.log(clipped / _LOWEST) / math.log1p(_WIDTH)
        self._bins += np.bincount(
            np.minimum(index.astype(np.int64), _BINS - 1), minlength=_BINS
        ).astype(np.int64)

    def distribution(self) -> Distribution | None:
        """Their distribution; its percentiles are within 0.1 % where it is not exact."""
        if self.count == 0:
            return None
        if not self._binned:
            return Distribution.of(np.concatenate(self._kept))
        p10, p50, p90, p99 = (self._from_bins(q) for q in PERCENTILES)
        return Distribution(
            count=self.count,
            mean=self._total / self.count,
            p10=p10,
            p50=p50,
            p90=p90,
            p99=p99,
            minimum=self._minimum,
            maximum=self._maximum,
            exact=False,
        )

    def _from_bins(self, q: float) -> float:
        rank = (self.count - 1) * q / 100
        index = int(np.searchsorted(np.cumsum(self._bins), rank, side="right"))
        middle = _LOWEST * math.exp((index + 0.5) * math.log1p(_WIDTH))
        return min(max(middle, self._minimum), self._maximum)

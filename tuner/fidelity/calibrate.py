"""A proxy's predictions brought to the scale of the real thing, layout by layout.

A layout is what changes how the engine runs a step at all: parallel sizes, kernel variant, graph or
eager, quantization. Proxies err by a factor that is much the same within a layout and differs
between layouts, so one factor a layout, on the log scale, mends most of it. Layouts with few
anchors borrow from all: their factor is drawn to the common one by how much factors differ at all
(an empirical Bayes estimate).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.fidelity.rank import Floats, Signs


@dataclass(frozen=True, slots=True)
class Anchor:
    """A point that was predicted and measured.

    Attributes:
        layout: Its layout.
        predicted: The proxy's raw prediction, above 0.
        measured: The real value, above 0: the geometric mean of its measurements.
    """

    layout: str
    predicted: float
    measured: float

    @property
    def offset(self) -> float:
        """By how much the proxy is low here, on the log scale."""
        return math.log(self.measured) - math.log(self.predicted)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Factors on the log scale.

    Attributes:
        common: The factor for a layout that no anchor covers.
        layouts: The factor of each covered layout.
    """

    common: float
    layouts: Mapping[str, float]

    def apply(self, layout: str, predicted: float) -> float:
        """A raw prediction on the real scale."""
        return predicted * math.exp(self.layouts.get(layout, self.common))


def calibrate(anchors: Sequence[Anchor], sigma: float = 0.0) -> Calibration:
    """Fit one factor a layout.

    Args:
        anchors: At least one.
        sigma: Relative deviation of a measurement; anchors of one layout are never taken to agree
            better than this.
    """
    if not anchors:
        raise ValueError("a calibration needs at least one anchor")
    return _Tally.of(anchors).calibration(sigma)


class _Tally:
    """Offsets of each layout as counts, sums and sums of squares, so that some can be left out."""

    def __init__(self, layouts: dict[str, tuple[int, float, float]]) -> None:
        self._layouts = layouts

    @classmethod
    def of(cls, anchors: Sequence[Anchor]) -> _Tally:
        return cls({}).with_(anchors, 1)

    def without(self, *anchors: Anchor) -> _Tally:
        return self.with_(anchors, -1)

    def with_(self, anchors: Sequence[Anchor], times: int) -> _Tally:
        layouts = dict(self._layouts)
        for anchor in anchors:
            count, total, squares = layouts.get(anchor.layout, (0, 0.0, 0.0))
            offset = anchor.offset
            layouts[anchor.layout] = (
                count + times,
                total + times * offset,
                squares + times * offset**2,
            )
        return _Tally({layout: sums for layout, sums in layouts.items() if sums[0]})

    def calibration(self, sigma: float) -> Calibration:
        if not self._layouts:
            return Calibration(0.0, {})
        means = {layout: total / n for layout, (n, total, _) in self._layouts.items()}
        common = sum(means.values()) / len(means)
        within = max(sigma**2, self._within())
        between = self._between(means, common, within)
        factors = {}
        for layout, mean in means.items():
            spread = between + within / self._layouts[layout][0]
            weight = between / spread if spread else 0.0
            factors[layout] = common + weight * (mean - common)
        return Calibration(common, factors)

    def _within(self) -> float:
        """Variance of offsets within layouts, pooled; 0 where each layout has one anchor."""
        sums = self._layouts.values()
        freedom = sum(n - 1 for n, _, _ in sums)
        squares = sum(squares - total**2 / n for n, total, squares in sums)
        return max(0.0, squares) / freedom if freedom else 0.0

    def _between(self, means: Mapping[str, float], common: float, within: float) -> float:
        """Variance of the true factors: that of the means, less what noise puts into it."""
        if len(means) < 2:
            return 0.0
        variance = sum((mean - common) ** 2 for mean in means.values()) / (len(means) - 1)
        noise = within * sum(1 / n for n, _, _ in self._layouts.values()) / len(means)
        return max(0.0, variance - noise)


def left_out(anchors: Sequence[Anchor], sigma: float = 0.0) -> Floats:
    """Each anchor's prediction by a calibration that has not seen it.

    Args:
        anchors: At least two.
        sigma: As for :func:`calibrate`.
    """
    tally = _Tally.of(anchors)
    return np.array(
        [tally.without(a).calibration(sigma).apply(a.layout, a.predicted) for a in anchors]
    )


def left_out_signs(
    anchors: Sequence[Anchor], sigma: float = 0.0, ended: Sequence[Anchor] = ()
) -> Signs:
    """How the proxy orders each pair of points, by a calibration that has seen neither.

    Leaving out both and not one keeps ties as they are: two points of one layout with one raw
    prediction stay tied, where factors that each leave out another point would order them by the
    noise of their own measurement.

    Args:
        anchors: The points that were measured.
        sigma: As for :func:`calibrate`.
        ended: Points without a value of their own, which no calibration has seen; they stand behind
            the others in the result.
    """
    points = [*anchors, *ended]
    count, tally = len(points), _Tally.of(anchors)
    found = np.zeros((count, count), dtype=np.int8)
    for i in range(count):
        for j in range(i + 1, count):
            first, second = points[i], points[j]
            if first.layout == second.layout:
                sign = np.sign(first.predicted - second.predicted)
            else:
                known = [points[place] for place in (i, j) if place < len(anchors)]
                seen = tally.without(*known).calibration(sigma)
                sign = np.sign(
                    seen.apply(first.layout, first.predicted)
                    - seen.apply(second.layout, second.predicted)
                )
            found[i, j], found[j, i] = sign, -sign
    return found


def typical_error(anchors: Sequence[Anchor], sigma: float = 0.0) -> float:
    """Mean absolute error of the left-out predictions, as a part of the measured values."""
    measured = np.array([a.measured for a in anchors])
    return float(np.mean(np.abs(left_out(anchors, sigma) / measured - 1)))

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
    groups: dict[str, list[float]] = {}
    for anchor in anchors:
        groups.setdefault(anchor.layout, []).append(anchor.offset)
    means = {layout: sum(offsets) / len(offsets) for layout, offsets in groups.items()}
    common = sum(means.values()) / len(means)
    within = max(sigma**2, _within(groups, means))
    between = _between(groups, means, within)
    layouts = {}
    for layout, mean in means.items():
        spread = between + within / len(groups[layout])
        weight = between / spread if spread else 0.0
        layouts[layout] = common + weight * (mean - common)
    return Calibration(common, layouts)


def _within(groups: Mapping[str, Sequence[float]], means: Mapping[str, float]) -> float:
    """Variance of offsets within layouts, pooled; 0 where each layout has one anchor."""
    freedom = sum(len(offsets) - 1 for offsets in groups.values())
    squares = sum((o - means[layout]) ** 2 for layout, offsets in groups.items() for o in offsets)
    return squares / freedom if freedom else 0.0


def _between(
    groups: Mapping[str, Sequence[float]], means: Mapping[str, float], within: float
) -> float:
    """Variance of the layouts' true factors: that of their means, less what noise puts into it."""
    if len(means) < 2:
        return 0.0
    middle = sum(means.values()) / len(means)
    variance = sum((mean - middle) ** 2 for mean in means.values()) / (len(means) - 1)
    noise = within * sum(1 / len(offsets) for offsets in groups.values()) / len(groups)
    return max(0.0, variance - noise)


def left_out(anchors: Sequence[Anchor], sigma: float = 0.0) -> Floats:
    """Each anchor's prediction by a calibration that has not seen it.

    Args:
        anchors: At least two.
        sigma: As for :func:`calibrate`.
    """
    found = [
        calibrate([*anchors[:i], *anchors[i + 1 :]], sigma).apply(a.layout, a.predicted)
        for i, a in enumerate(anchors)
    ]
    return np.array(found)


def left_out_signs(anchors: Sequence[Anchor], sigma: float = 0.0) -> Signs:
    """How the proxy orders each pair of anchors, by a calibration that has seen neither.

    Leaving out both and not one keeps ties as they are: two points of one layout with one raw
    prediction stay tied, where factors that each leave out another point would order them by the
    noise of their own measurement.
    """
    count = len(anchors)
    found = np.zeros((count, count), dtype=np.int8)
    for i in range(count):
        for j in range(i + 1, count):
            first, second = anchors[i], anchors[j]
            if first.layout == second.layout:
                sign = np.sign(first.predicted - second.predicted)
            else:
                rest = [a for k, a in enumerate(anchors) if k not in {i, j}]
                seen = calibrate(rest, sigma) if rest else Calibration(0.0, {})
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

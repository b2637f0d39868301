"""Which points an earned proxy lets run first, and which it may put off. It never rejects one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tuner.fidelity.assess import Limits


@dataclass(frozen=True, slots=True)
class Screen:
    """A queue in two parts.

    Attributes:
        kept: Points to run, in this order.
        deferred: Points put off, in the order in which they came.
    """

    kept: tuple[str, ...]
    deferred: tuple[str, ...]


def screen(
    waiting: Sequence[str],
    predicted: Mapping[str, float],
    layouts: Mapping[str, str],
    *,
    error: float,
    failed: Collection[str] = (),
    limits: Limits,
) -> Screen:
    """Order a queue by calibrated predictions, and put off what is clearly not among the best.

    Kept are the best quarter of all predicted points, the best of each layout, everything within
    the proxy's own error of the best, and every point of which the proxy says nothing. Equal
    predictions are never torn apart: the last one kept keeps its equals with it.

    Args:
        waiting: Points that have not run yet.
        predicted: Calibrated prediction of every point that has one, run or not.
        layouts: The layout of each of these.
        error: Mean absolute error of the predictions, as a part of the value.
        failed: Points that ran and came to nothing; they hold no place among the best.
        limits: How much is kept.
    """
    alive = {point: value for point, value in predicted.items() if point not in failed}
    floor = _floor(alive, error, limits)
    best: dict[str, float] = {}
    for point, value in alive.items():
        best[layouts[point]] = max(value, best.get(layouts[point], -math.inf))
    kept = [
        p for p in waiting if p in alive and (alive[p] >= floor or alive[p] >= best[layouts[p]])
    ]
    kept.sort(key=lambda point: -alive[point])
    unknown = [point for point in waiting if point not in predicted]
    chosen = set(kept) | set(unknown)
    return Screen(_interleaved(kept, unknown), tuple(p for p in waiting if p not in chosen))


def _floor(alive: Mapping[str, float], error: float, limits: Limits) -> float:
    """The lowest prediction that is kept for itself."""
    if not alive:
        return math.inf
    values = sorted(alive.values(), reverse=True)
    quarter = values[math.ceil(limits.keep * len(values)) - 1]
    return min(quarter, values[0] * (1 - max(limits.margin, 2 * error)))


def _interleaved(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """In turns, so that neither queue waits for the other to end."""
    both = min(len(first), len(second))
    turns = [point for pair in zip(first, second, strict=False) for point in pair]
    return (*turns, *first[both:], *second[both:])


def draw(points: Sequence[str], *parts: object) -> str:
    """One of some points, by chance that is the same whenever it is asked the same."""
    text = "\0".join(map(str, (*parts, len(points))))
    return points[int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % len(points)]


def plan_anchors(
    predicted: Mapping[str, float],
    layouts: Mapping[str, str],
    baseline: str,
    *,
    limits: Limits,
    again: str | None = None,
    repeats: int = 2,
    seed: str = "",
) -> tuple[str, ...]:
    """Points to measure before a proxy can have earned anything; they are worth measuring anyway.

    The baseline; what the proxy holds for best; the best of each layout; a spread of the rest, half
    from the upper third and half by chance; and one of them more than once, for the noise.

    Args:
        predicted: The proxy's raw predictions.
        layouts: The layout of each predicted point.
        baseline: The point that a study begins with.
        limits: How many anchors are needed.
        again: The point that is measured more than once; the baseline where none is named. What the
            proxy holds for best is often the cheaper choice: it is fast, and measured again anyway.
        repeats: How often it is measured.
        seed: What the chance hangs on.

    Returns:
        Points in the order in which to measure them, the repeats at the end.
    """
    ranked = sorted(predicted, key=lambda point: (-predicted[point], point))
    chosen = dict.fromkeys([baseline, *ranked[:1]])
    for layout in dict.fromkeys(layouts[point] for point in ranked):
        chosen.setdefault(next(p for p in ranked if layouts[p] == layout))
    upper = ranked[: max(1, len(ranked) // 3)]
    turn = 0
    while len(chosen) < min(limits.anchors, len({baseline, *ranked})):
        rest = [p for p in (upper if turn % 2 else ranked) if p not in chosen]
        rest = rest or [p for p in ranked if p not in chosen]
        chosen.setdefault(draw(rest, "anchor", seed, turn))
        turn += 1
    order = list(chosen)
    return (*order, *[again or baseline] * (repeats - 1))

"""A few points of a search space to look at: none is special, together they show what there is."""

from __future__ import annotations

import random
from typing import Any, Final

from tuner.errors import SpaceError
from tuner.spec.axes import Assignment, Axis, axes
from tuner.spec.context import Context
from tuner.spec.points import baseline, first_points, point
from tuner.spec.resolve import violations
from tuner.spec.space import SearchSpace
from tuner.spec.values import key

_DRAWS: Final = 300


def specimens(space: SearchSpace, context: Context, count: int) -> tuple[dict[str, Any], ...]:
    """Points that keep the rules, other than the baseline and the first points; the same each time.

    Of many that are drawn, each is taken that shows most values which none before it has shown.

    Args:
        space: The search space.
        context: The machine and the workloads.
        count: How many; there may be fewer.
    """
    known = [baseline(space, context), *first_points(space, context)]
    drawn = _drawn(space, context, max(_DRAWS, 3 * count), without=[key(one) for one in known])
    shown = {shows for one in known for shows in _values(one)}
    chosen: list[dict[str, Any]] = []
    while drawn and len(chosen) < count:
        best = max(drawn, key=lambda one: len(_values(one) - shown))
        drawn.remove(best)
        chosen.append(best)
        shown |= _values(best)
    return tuple(chosen)


def _drawn(
    space: SearchSpace, context: Context, draws: int, *, without: list[str]
) -> list[dict[str, Any]]:
    rng = random.Random(0)  # noqa: S311 - the same points each time, no secret
    found: dict[str, dict[str, Any]] = {}
    for _ in range(draws):
        one = point(space, _numbers(axes(space, context), rng), context)
        name = key(one)
        if name in found or name in without:
            continue
        try:
            broken = violations(space, one, context)
        except SpaceError:
            continue  # a rule that cannot be computed there is said when such a point comes up
        if not broken:
            found[name] = one
    return list(found.values())


def _numbers(found: tuple[Axis, ...], rng: random.Random) -> Assignment:
    numbers: dict[str, int | float] = {}
    for axis in found:
        if axis.active(numbers):
            numbers[axis.name] = _number(axis, rng)
    return numbers


def _number(axis: Axis, rng: random.Random) -> int | float:
    if axis.kind != "float":
        step = int(axis.step or 1)
        return int(axis.low) + step * rng.randrange(axis.size or 1)
    if axis.step is None:
        return rng.uniform(axis.low, axis.high)
    return rng.choice(list(axis.values()))


def _values(one: dict[str, Any]) -> set[str]:
    return {f"{name} {key(value)}" for name, value in one.items()}

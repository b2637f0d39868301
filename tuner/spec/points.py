"""Points: a value for each parameter that exists, and the way between them and a sampler's numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tuner.errors import SpaceError
from tuner.spec.axes import Assignment, Axis, Layout, exists, layout, names_of
from tuner.spec.context import Context
from tuner.spec.dependencies import controllers
from tuner.spec.evaluation import Value
from tuner.spec.space import SearchSpace
from tuner.spec.values import Choice, PointValue, key, label, meaning

Point = Mapping[str, PointValue]
"""A value for each parameter that exists, in the order of the file; plain JSON."""

MAX_STEERING = 200_000
"""Most combinations of the axes that conditions hang on, to count the points of a grid."""


def point(space: SearchSpace, assignment: Assignment, context: Context) -> dict[str, Any]:
    """The point that a sampler's numbers stand for.

    Numbers of axes that do not exist at the point are passed over.

    Raises:
        KeyError: When the number of an axis that exists is missing.
    """
    plan = layout(space, context)
    known: dict[str, Value] = dict(plan.facts)
    values: dict[str, Choice] = {}
    for axis in plan.axes:
        if exists(plan, axis.name, known):
            decoded = plan.decoded(axis.name, assignment[axis.name])
            values |= decoded
            known |= {name: meaning(value) for name, value in decoded.items()}
    return {name: label(values[name]) for name in space.parameters if name in values}


def assignment(space: SearchSpace, wanted: Point, context: Context) -> dict[str, int | float]:
    """The sampler's numbers for a point; the opposite of :func:`point`.

    Raises:
        SpaceError: When the point is not one of this search space: a value that is not in its
            domain, a parameter that is missing, or one that does not exist there.
    """
    plan = layout(space, context)
    known: dict[str, Value] = dict(plan.facts)
    numbers: dict[str, int | float] = {}
    used: set[str] = set()
    for axis in plan.axes:
        if not exists(plan, axis.name, known):
            continue
        number = _number(plan, axis, wanted)
        numbers[axis.name] = number
        decoded = plan.decoded(axis.name, number)
        used |= decoded.keys()
        known |= {name: meaning(value) for name, value in decoded.items()}
    if extra := [name for name in wanted if name not in used]:
        raise SpaceError(f"{extra[0]} {_absent(space, extra[0])}", file=space.source.file)
    return numbers


def _absent(space: SearchSpace, name: str) -> str:
    """Why a point cannot say a parameter."""
    if name not in space.parameters:
        return "is unknown"
    conditions = [group.when for group in space.groups.values() if name in group.members]
    when = next(iter(conditions), space.parameters[name].when)
    return "does not exist at this point" + (f", only when {when}" if when else "")


def _number(plan: Layout, axis: Axis, wanted: Point) -> int | float:
    space = plan.space
    members = space.members(axis.name)
    missing = next((name for name in members if name not in wanted), None)
    if missing is not None:
        raise SpaceError(f"the point does not say {missing}", file=space.source.file)
    given = {name: wanted[name] for name in members}
    table: tuple[Mapping[str, Choice], ...] | None = plan.entries.get(axis.name)
    if table is None and axis.name in plan.choices:
        table = tuple({axis.name: value} for value in plan.choices[axis.name])
    if table is None:
        return _in_range(plan, axis, given[axis.name])
    for number, entry in enumerate(table):
        if all(_same(label(entry[name]), given[name]) for name in members):
            return number
    said = ", ".join(f"{name} = {key(value)}" for name, value in given.items())
    listed = ", ".join(key(label(entry[members[0]])) for entry in table)
    values = f", whose values there are {listed}" if len(members) == 1 and len(listed) < 80 else ""
    raise SpaceError(f"{said} is not in this search space{values}", file=space.source.file)


def _in_range(plan: Layout, axis: Axis, value: Any) -> int | float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = axis.kind == "integer"
    if number and math.isfinite(value) and not (whole and value != int(value)):
        try:
            snapped = plan.decoded(axis.name, value)[axis.name]
        except ValueError:
            snapped = None
        if isinstance(snapped, int | float) and math.isclose(snapped, value, rel_tol=1e-9):
            return snapped
    raise SpaceError(
        f"{axis.name} = {key(value)} is not in this search space", file=plan.space.source.file
    )


def _same(one: PointValue, other: PointValue) -> bool:
    """Whether two values of points are the same; 1 and 1.0 are, 1 and true are not."""
    return key(_plain(one)) == key(_plain(other))


def _plain(value: PointValue) -> PointValue:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def baseline(space: SearchSpace, context: Context) -> dict[str, Any]:
    """The point that the study starts from."""
    return completed(space, {}, context)


def first_points(space: SearchSpace, context: Context) -> tuple[dict[str, Any], ...]:
    """The written points to try right after the baseline, completed by the baseline's values."""
    return tuple(
        completed(space, {name: label(value) for name, value in written.items()}, context)
        for written in space.document.first
    )


def completed(space: SearchSpace, written: Point, context: Context) -> dict[str, Any]:
    """A point from some values; the others are the baseline's, where they exist."""
    plan = layout(space, context)
    wanted = {name: label(p.baseline) for name, p in space.parameters.items()} | dict(written)
    known: dict[str, Value] = dict(plan.facts)
    present: list[str] = []
    for axis in plan.axes:
        if exists(plan, axis.name, known):
            present += space.members(axis.name)
            number = _number(plan, axis, wanted)
            decoded = plan.decoded(axis.name, number)
            known |= {name: meaning(value) for name, value in decoded.items()}
    if absent := [name for name in written if name not in present]:
        raise SpaceError(f"{absent[0]} {_absent(space, absent[0])}", file=space.source.file)
    return {name: wanted[name] for name in space.parameters if name in present}


def names_at(space: SearchSpace, wanted: Point, context: Context) -> dict[str, Value]:
    """Everything that expressions may name at a point: facts, and parameters that exist."""
    return names_of(layout(space, context), assignment(space, wanted, context))


def enumerate_points(space: SearchSpace, context: Context) -> Iterator[dict[str, Any]]:
    """All points of a search space in order, the last axis running fastest.

    Raises:
        SpaceError: When an axis has no end of values.
    """
    grid_size(space, context)
    plan = layout(space, context)

    def walk(rest: tuple[Axis, ...], chosen: dict[str, int | float]) -> Iterator[dict[str, Any]]:
        if not rest:
            yield point(space, chosen, context)
            return
        axis = rest[0]
        if not axis.active(chosen):
            yield from walk(rest[1:], chosen)
            return
        for value in axis.values():
            yield from walk(rest[1:], {**chosen, axis.name: value})

    return walk(plan.axes, {})


def grid_size(space: SearchSpace, context: Context) -> int:
    """How many points there are, the rules not considered.

    Only axes that conditions hang on are walked through; the others multiply.

    Raises:
        SpaceError: When an axis has no end of values, or there are too many points to count.
    """
    plan = layout(space, context)
    for axis in plan.axes:
        if axis.size is None:
            raise space.source.error(
                ("parameters", axis.name, "float"),
                f"{axis.name} has no end of values, so there is no grid",
                "give it a step, or another sampler",
            )
    steering = frozenset().union(*(controllers(space.document, axis.name) for axis in plan.axes))
    if math.prod(axis.size or 1 for axis in plan.axes if axis.name in steering) > MAX_STEERING:
        raise space.source.error(
            ("search",),
            f"conditions hang on {', '.join(sorted(steering))}: too many points to count",
            "use another sampler than grid, or coarser values",
        )

    def count(rest: tuple[Axis, ...], chosen: dict[str, int | float]) -> int:
        if not rest:
            return 1
        axis = rest[0]
        if not axis.active(chosen):
            return count(rest[1:], chosen)
        if axis.name not in steering:
            return (axis.size or 1) * count(rest[1:], chosen)
        return sum(count(rest[1:], {**chosen, axis.name: value}) for value in axis.values())

    return count(plan.axes, {})

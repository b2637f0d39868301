"""Which parameters hang on which others, and the order that follows."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from tuner.spec.document import SpaceDocument
from tuner.spec.evaluation import Absent, Value, holds
from tuner.spec.expression import parse


def group_of(document: SpaceDocument) -> dict[str, str]:
    """The group of each parameter that is a member of one."""
    return {member: name for name, group in document.groups.items() for member in group.members}


def axis_names(document: SpaceDocument) -> tuple[str, ...]:
    """The axes in the order of the file: parameters of their own, and groups at their first member."""
    groups = group_of(document)
    return tuple(dict.fromkeys(groups.get(name, name) for name in document.parameters))


def condition(document: SpaceDocument, axis: str) -> str | None:
    """The condition of an axis, as written."""
    group = document.groups.get(axis)
    return group.when if group is not None else document.parameters[axis].when


def axis_order(document: SpaceDocument) -> tuple[str, ...]:
    """The axes, each after those that its condition hangs on; else in the order of the file.

    Raises:
        CycleError: When conditions hang on each other; ``args[1]`` is the circle.
    """
    axes = axis_names(document)
    rank = {axis: place for place, axis in enumerate(axes)}
    sorter = TopologicalSorter({axis: controllers(document, axis) for axis in axes})
    sorter.prepare()
    order: list[str] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted({*ready, *sorter.get_ready()}, key=rank.__getitem__)
        axis = ready.pop(0)
        order.append(axis)
        sorter.done(axis)
    return tuple(order)


def controllers(document: SpaceDocument, axis: str) -> frozenset[str]:
    """The axes that the condition of an axis names."""
    text = condition(document, axis)
    if text is None:
        return frozenset()
    groups = group_of(document)
    return frozenset(
        groups.get(name, name) for name in parse(text).names if name in document.parameters
    )


def computed_order(document: SpaceDocument) -> tuple[str, ...]:
    """The computed values, each after those that it names.

    Raises:
        CycleError: When they hang on each other.
    """
    known = document.computed
    graph = {name: parse(item.value).names & known.keys() for name, item in known.items()}
    return tuple(TopologicalSorter(graph).static_order())


def is_active(document: SpaceDocument, axis: str, names: Mapping[str, Value]) -> bool:
    """Whether an axis exists at a point.

    Args:
        document: The search space.
        axis: The axis.
        names: Facts, and the values of the parameters that exist.

    Raises:
        ExpressionError: When the condition cannot be computed.
    """
    text = condition(document, axis)
    if text is None:
        return True
    try:
        return holds(parse(text), names)
    except Absent:
        return False


__all__ = [
    "CycleError",
    "axis_names",
    "axis_order",
    "computed_order",
    "condition",
    "controllers",
    "group_of",
    "is_active",
]

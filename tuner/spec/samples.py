"""Values to try expressions on: every combination where they can be counted, else a fair part."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tuner.errors import SpaceError
from tuner.spec.context import Context
from tuner.spec.dependencies import axis_order, controllers, group_of, is_active
from tuner.spec.document import SpaceDocument
from tuner.spec.entries import entries
from tuner.spec.evaluation import Value
from tuner.spec.expression import parse
from tuner.spec.outcomes import declared
from tuner.spec.space import SearchSpace
from tuner.spec.values import meaning

MAX_SAMPLES: Final = 2000

Row = Mapping[str, Value]


def closure(document: SpaceDocument, names: Iterable[str]) -> tuple[str, ...]:
    """All axes that some names hang on, through computed values and conditions, in order."""
    groups = group_of(document)
    wanted = list(names)
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in document.computed:
            wanted += parse(document.computed[name].value).names
            continue
        axis = groups.get(name, name)
        if axis not in found and (axis in document.groups or axis in document.parameters):
            found.add(axis)
            wanted += controllers(document, axis)
    return tuple(axis for axis in axis_order(document) if axis in found)


def samples(
    space: SearchSpace, names: Iterable[str], context: Context
) -> Iterator[dict[str, Value]]:
    """Facts and parameters, for combinations of the values that some names may have.

    Parameters whose condition does not hold for a combination are left out of it.

    Args:
        space: The search space.
        names: What is asked about: parameters and computed values.
        context: The machine and the workloads.

    Raises:
        ExpressionError: When a condition cannot be computed.
    """
    document = space.document
    axes = closure(document, names)
    facts = context.facts
    columns = [_column(space, axis, context) for axis in axes]
    for rows in _combinations(columns):
        known: dict[str, Value] = dict(facts)
        for axis, row in zip(axes, rows, strict=True):
            if is_active(document, axis, known):
                known |= row
        yield known


def _combinations(columns: Sequence[Sequence[Row]]) -> Iterator[tuple[Row, ...]]:
    if math.prod(len(column) for column in columns) <= MAX_SAMPLES:
        yield from itertools.product(*columns)
        return
    rng = random.Random(0)  # noqa: S311 - a fair part of the combinations, no secret
    for _ in range(MAX_SAMPLES):
        yield tuple(rng.choice(column) for column in columns)


def _column(space: SearchSpace, axis: str, context: Context) -> list[Row]:
    """The values of one axis that are tried."""
    group = space.groups.get(axis)
    if group is None:
        return [{axis: value} for value in _values(space, axis)]
    try:
        found = entries(axis, group, context.facts, space.source)
    except SpaceError:
        # On the machine in hand the group is empty or cannot be computed. That is said elsewhere;
        # here its written values do.
        lists = [declared(space.document, member) or (1,) for member in group.members]
        found = tuple(
            dict(zip(group.members, row, strict=True)) for row in itertools.product(*lists)
        )
    return [{name: meaning(value) for name, value in entry.items()} for entry in found]


def _values(space: SearchSpace, name: str) -> list[Value]:
    parameter = space.parameters[name]
    if parameter.switch is not None:
        return [False, True]
    if parameter.bundle is not None:
        return list(parameter.bundle)
    numbers = parameter.integer or parameter.floating
    if numbers is None:
        return [meaning(value) for value in parameter.choices or ()]
    middle = numbers.snap((numbers.low + numbers.high) / 2)
    return list(dict.fromkeys([numbers.low, numbers.high, meaning(parameter.baseline), middle]))

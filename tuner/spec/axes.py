"""What a sampler sees of a search space: axes, and points as numbers on them.

A group is one axis, whose numbers count its combinations. Choices are numbers too: in order where
they are all numbers (``ordinal``), else in no order (``categorical``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from tuner.spec.context import Context
from tuner.spec.dependencies import axis_order, is_active
from tuner.spec.entries import Entry, entries
from tuner.spec.evaluation import Value
from tuner.spec.expression import ExpressionError
from tuner.spec.parameter import Parameter
from tuner.spec.ranges import FloatRange, IntegerRange
from tuner.spec.space import SearchSpace
from tuner.spec.values import Choice, meaning

Kind = Literal["categorical", "ordinal", "integer", "float"]
Assignment = Mapping[str, int | float]
"""A point as the sampler has it: a number for each axis that is active."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that a sampler chooses.

    Attributes:
        name: Name of the parameter, or of the group.
        kind: ``categorical`` and ``ordinal`` axes take the numbers from 0 to ``size - 1``;
            ``integer`` and ``float`` axes take the values themselves.
        low: Smallest number.
        high: Largest number.
        step: Distance between numbers; None where there is none.
        log: Whether to draw evenly over the logarithms.
        active: Whether the axis exists, given the numbers of the axes before it.
    """

    name: str
    kind: Kind
    low: int | float
    high: int | float
    step: int | float | None = 1
    log: bool = False
    active: Callable[[Assignment], bool] = field(default=lambda _: True, compare=False, repr=False)

    @property
    def size(self) -> int | None:
        """How many numbers it takes; None where they cannot be counted."""
        if self.kind != "float":
            return int(self.high - self.low) // int(self.step or 1) + 1
        if self.step is None:
            return 1 if self.low == self.high else None
        return FloatRange(low=self.low, high=self.high, step=self.step).size

    def values(self) -> Iterator[int | float]:
        """All its numbers in order; none where they cannot be counted."""
        if self.kind != "float":
            yield from range(int(self.low), int(self.high) + 1, int(self.step or 1))
        elif self.size == 1:
            yield float(self.low)
        elif self.step is not None:
            numbers = FloatRange(low=self.low, high=self.high, step=self.step)
            yield from (numbers.value(index) for index in range(self.size or 0))


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A search space on one machine: its axes with what their numbers stand for.

    Attributes:
        space: The search space.
        facts: The machine and the workloads.
        axes: The axes, each after those that its condition hangs on.
        choices: Values of the axes of choices, in the order of their numbers.
        entries: Combinations of the groups, in the order of their numbers.
    """

    space: SearchSpace
    facts: Mapping[str, Value]
    axes: tuple[Axis, ...]
    choices: Mapping[str, tuple[Choice, ...]]
    entries: Mapping[str, tuple[Entry, ...]]

    def decoded(self, axis: str, number: float) -> Entry:
        """The values of an axis' parameters for one of its numbers."""
        if axis in self.entries:
            return self.entries[axis][int(number)]
        if axis in self.choices:
            return {axis: self.choices[axis][int(number)]}
        return {axis: _range(self.space.parameters[axis]).snap(number)}


def axes(space: SearchSpace, context: Context) -> tuple[Axis, ...]:
    """The axes of a search space, each after those that its condition hangs on.

    Raises:
        SpaceError: When a group has no combination on this machine.
    """
    return layout(space, context).axes


@lru_cache(maxsize=16)
def layout(space: SearchSpace, context: Context) -> Layout:
    """The search space on one machine; computed once for both."""
    document = space.document
    facts = context.facts
    order = axis_order(document)
    choices: dict[str, tuple[Choice, ...]] = {}
    combined: dict[str, tuple[Entry, ...]] = {}
    kinds: list[Axis] = []
    for name in order:
        if name in document.groups:
            combined[name] = entries(name, document.groups[name], facts, space.source)
            kinds.append(_counted(name, "categorical", len(combined[name])))
            continue
        parameter = document.parameters[name]
        kind, values = _choices(parameter)
        if kind is None:
            kinds.append(_ranged(name, _range(parameter)))
            continue
        choices[name] = values
        kinds.append(_counted(name, kind, len(values)))
    bare = Layout(space, facts, tuple(kinds), choices, combined)
    return Layout(
        space, facts, tuple(_conditional(axis, bare) for axis in kinds), choices, combined
    )


def names_of(plan: Layout, assignment: Assignment) -> dict[str, Value]:
    """Everything that expressions may name at a point: facts, and parameters that exist."""
    known: dict[str, Value] = dict(plan.facts)
    for axis in plan.axes:
        if axis.name in assignment and exists(plan, axis.name, known):
            decoded = plan.decoded(axis.name, assignment[axis.name])
            known |= {name: meaning(value) for name, value in decoded.items()}
    return known


def exists(plan: Layout, axis: str, names: Mapping[str, Value]) -> bool:
    """Whether an axis exists, given the names before it.

    Raises:
        SpaceError: When its condition cannot be computed for these values.
    """
    try:
        return is_active(plan.space.document, axis, names)
    except ExpressionError as error:
        key = "groups" if axis in plan.entries else "parameters"
        raise plan.space.source.error(
            (key, axis, "when"), f"{axis}: {error}", "make it hold for every value that it meets"
        ) from error


def _conditional(axis: Axis, bare: Layout) -> Axis:
    def active(assignment: Assignment) -> bool:
        return exists(bare, axis.name, names_of(bare, assignment))

    return Axis(axis.name, axis.kind, axis.low, axis.high, axis.step, axis.log, active)


def _counted(name: str, kind: Kind, count: int) -> Axis:
    return Axis(name, kind, 0, count - 1)


def _ranged(name: str, numbers: IntegerRange | FloatRange) -> Axis:
    kind: Kind = "integer" if isinstance(numbers, IntegerRange) else "float"
    return Axis(name, kind, numbers.low, numbers.high, numbers.step, numbers.log)


def _choices(parameter: Parameter) -> tuple[Kind | None, tuple[Choice, ...]]:
    """The values of a parameter that has a list of them, and whether they have an order."""
    if parameter.switch is not None:
        return "categorical", (False, True)
    if parameter.bundle is not None:
        return "categorical", tuple(sorted(parameter.bundle))  # the file's order means nothing
    values = parameter.choices or ()
    if not values:
        return None, ()
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values):
        return "ordinal", tuple(sorted(numbers))
    return "categorical", values


def _range(parameter: Parameter) -> IntegerRange | FloatRange:
    numbers = parameter.integer or parameter.floating
    if numbers is None:
        raise AssertionError("a parameter without choices has a range; the checks saw to it")
    return numbers

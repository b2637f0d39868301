"""The combinations of a group: which there are, given the machine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from tuner.spec.evaluation import Value, evaluate, holds, show, whole
from tuner.spec.expression import ExpressionError, parse
from tuner.spec.parameter import Group, Parallel
from tuner.spec.strict_yaml import Document, Place
from tuner.spec.values import Choice, key, label, meaning

MAX_COMBINATIONS = 20_000

Entry = Mapping[str, Choice]
"""One combination: a value for each member."""


def entries(
    name: str, group: Group, facts: Mapping[str, Value], source: Document
) -> tuple[Entry, ...]:
    """The combinations of a group, each once, in the order in which they are written.

    Args:
        name: The group's name.
        group: What it declares.
        facts: The machine and the workloads.
        source: The search space's file.

    Raises:
        SpaceError: When there are none or too many, or the group cannot be computed.
    """
    place: Place = ("groups", name)
    kept: dict[str, Entry] = {}
    try:
        for number, entry in enumerate(_written(group, facts)):
            if number >= MAX_COMBINATIONS:
                raise source.error(
                    place, f"{name} has more than {MAX_COMBINATIONS} combinations", "narrow it"
                )
            if _required(group, entry, facts):
                kept.setdefault(
                    key({member: label(value) for member, value in entry.items()}), entry
                )
    except ExpressionError as error:
        raise source.error(
            place, f"{name}: {error}", "mend the expression, or what it is computed from"
        ) from error
    if not kept:
        raise source.error(
            place,
            f"{name} has no combination left{_seen(group, facts)}",
            "loosen require, or write other values",
        )
    return tuple(kept.values())


def _written(group: Group, facts: Mapping[str, Value]) -> Iterator[Entry]:
    if group.parallel is not None:
        yield from _shares(group.parallel, facts)
    elif group.points is not None:
        yield from group.points
    elif group.together is not None:
        names = tuple(group.together)
        for row in zip(*group.together.values(), strict=True):
            yield dict(zip(names, row, strict=True))
    else:
        names = tuple(sorted(group.members))  # the order of keys must not number them anew
        for grid in group.grids or ():
            for row in itertools.product(*(grid[name] for name in names)):
                found = dict(zip(names, row, strict=True))
                yield {member: found[member] for member in group.members}


def _required(group: Group, entry: Entry, facts: Mapping[str, Value]) -> bool:
    if group.require is None:
        return True
    names = {member: meaning(value) for member, value in entry.items()}
    return holds(parse(group.require), {**facts, **names})


def _shares(parallel: Parallel, facts: Mapping[str, Value]) -> Iterator[Entry]:
    total = _amount(parallel, facts)
    equal = parallel.equals is not None
    for sizes in _factors(total, len(parallel.members), exact=equal):
        yield dict(zip(parallel.members, sizes, strict=True))


def _amount(parallel: Parallel, facts: Mapping[str, Value]) -> int:
    asked = parallel.equals if parallel.equals is not None else parallel.divides
    value = whole(evaluate(parse(asked), facts)) if isinstance(asked, str) else asked
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65536:
        raise ExpressionError(
            f"{asked} is {show(value)}, and sizes share out a whole number from 1 to 65536"
        )
    return value


def _factors(total: int, count: int, *, exact: bool) -> Iterator[tuple[int, ...]]:
    """All sizes whose product is the total, or divides it; the first size grows last."""
    if count == 0:
        if total == 1 or not exact:
            yield ()
        return
    for size in (number for number in range(1, total + 1) if total % number == 0):
        for rest in _factors(total // size, count - 1, exact=exact):
            yield (size, *rest)


def _seen(group: Group, facts: Mapping[str, Value]) -> str:
    """The facts that the group asked for, for the message that nothing is left."""
    names = parse(group.require).names & facts.keys() if group.require is not None else ()
    said = ", ".join(f"{name} is {show(facts[name])}" for name in sorted(names))
    return f": {said}" if said else ""

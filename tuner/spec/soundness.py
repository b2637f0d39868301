"""Whether a search space holds together: every expression computed, the baseline and the first points real."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tuner.errors import SpaceError
from tuner.spec.axes import layout
from tuner.spec.checks.names import asked_names
from tuner.spec.context import HARDWARE_FACTS, Context
from tuner.spec.dependencies import axis_order, condition
from tuner.spec.document import SpaceDocument
from tuner.spec.evaluation import Absent, Value, holds, show
from tuner.spec.expression import ExpressionError, parse
from tuner.spec.mends import nearest
from tuner.spec.points import baseline, completed
from tuner.spec.resolve import computed_values, resolve, violations
from tuner.spec.samples import samples
from tuner.spec.space import SearchSpace
from tuner.spec.strict_yaml import Place
from tuner.spec.targets import check_quarrels
from tuner.spec.values import key, label


def asks_hardware(document: SpaceDocument) -> frozenset[str]:
    """The facts of the machine that the search space hangs on and does not give itself."""
    own = document.hardware
    asked = asked_names(document) & frozenset(HARDWARE_FACTS.values())
    given = {fact for key, fact in HARDWARE_FACTS.items() if getattr(own, key) is not None}
    return asked - given


def check(space: SearchSpace, context: Context) -> None:
    """Check a search space on a machine.

    :func:`load_space` does so itself where nothing in the space asks about the machine.

    Raises:
        SpaceError: When an expression cannot be computed for values that it may meet, two tuned
            values set the same thing, a group has no combination, or the baseline or a first point
            is not in the space or breaks a rule.
    """
    for place, text in _truths(space.document):
        _try_out(space, place, text, context)
    for name, item in space.computed.items():
        _try_out(space, ("computed", name, "value"), item.value, context, owner=name)
    check_quarrels(space, context)
    _check_baseline(space, context)
    seen: list[Mapping[str, object]] = [baseline(space, context)]
    for index, written in enumerate(space.document.first):
        wanted = {name: label(value) for name, value in written.items()}
        found = _check_first(space, index, wanted, context)
        if found in seen:
            raise space.source.error(
                ("first", index),
                "this point is the baseline" if found == seen[0] else "this point stands twice",
                "change a value, or delete it",
            )
        seen.append(found)


def _truths(document: SpaceDocument) -> Iterator[tuple[Place, str]]:
    """Conditions and rules, with their places."""
    for axis in axis_order(document):
        if text := condition(document, axis):
            yield ("groups" if axis in document.groups else "parameters", axis, "when"), text
    for index, rule in enumerate(document.rules):
        key = "forbid" if rule.forbid is not None else "require"
        yield ("rules", index, key), str(rule.forbid or rule.require)


def _try_out(
    space: SearchSpace, place: Place, text: str, context: Context, owner: str | None = None
) -> None:
    """Compute an expression on the values that its names may have."""
    expression = parse(text)
    names: Mapping[str, Value] = {}
    try:
        for names in samples(space, (*expression.names, *([owner] if owner else [])), context):
            known = {**names, **computed_values(space, names)}
            if owner is None:
                _truth(text, known)
    except ExpressionError as error:
        used = {name: names[name] for name in sorted(expression.names) if name in names}
        values = ", ".join(f"{name} = {show(value)}" for name, value in used.items())
        said = f"{error} (with {values})" if values else str(error)
        raise space.source.error(
            place, said, "make the expression hold for every value that it can meet"
        ) from error


def _truth(text: str, names: Mapping[str, Value]) -> None:
    try:
        holds(parse(text), names)
    except Absent:
        return


def _check_baseline(space: SearchSpace, context: Context) -> None:
    plan = layout(space, context)
    for name, combinations in plan.entries.items():
        members = space.members(name)
        start = {member: label(space.parameters[member].baseline) for member in members}
        known = [
            {member: label(value) for member, value in entry.items()} for entry in combinations
        ]
        if start not in known:
            said = ", ".join(f"{member} = {key(value)}" for member, value in start.items())
            raise space.source.error(
                ("parameters", members[0], "baseline"),
                f"the baseline {said} is not one of the {len(known)} combinations of {name}",
                f"as {key(known[0])} would be",
            )
    start = baseline(space, context)
    resolve(space, start, context)
    if broken := violations(space, start, context):
        raise space.source.error(
            ("rules", space.rules.index(broken[0])),
            f"the baseline breaks the rule {broken[0].text}: {broken[0].reason}",
            "choose another baseline, or mend the rule",
        )


def _check_first(
    space: SearchSpace, index: int, written: Mapping[str, object], context: Context
) -> Mapping[str, object]:
    place: Place = ("first", index)
    for name in written:
        if name not in space.parameters:
            guess = nearest(name, space.parameters)
            mend = f"did you mean {guess}?" if guess else "delete it"
            raise space.source.error((*place, name), f"{name} is not a parameter", mend)
    try:
        found = completed(space, written, context)  # type: ignore[arg-type] # labels of choices
    except SpaceError as error:
        raise space.source.error(
            place, f"this point: {error.message}", "write values that exist there, or delete it"
        ) from error
    resolve(space, found, context)
    if broken := violations(space, found, context):
        raise space.source.error(
            place,
            f"this point breaks the rule {broken[0].text}: {broken[0].reason}",
            "change a value, or mend the rule",
        )
    return found

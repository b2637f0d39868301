"""The names in expressions: known, in no circle, and none without an effect."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tuner.spec.context import ASSUMED, workload_facts
from tuner.spec.dependencies import CycleError, axis_order, computed_order
from tuner.spec.document import SpaceDocument
from tuner.spec.expression import parse
from tuner.spec.mends import nearest
from tuner.spec.strict_yaml import Document, Place


def check_names(document: SpaceDocument, source: Document) -> None:
    """Check every expression's names, and that every parameter does something.

    Raises:
        SpaceError: At the first thing that does not hold.
    """
    for name in document.computed:
        if name in document.parameters or name in document.groups:
            raise source.error(
                ("computed", name), f"{name} is also a parameter or a group", "choose another name"
            )
    for place, text, known in expressions(document):
        for name in sorted(parse(text).names):
            if name not in known:
                raise _unknown(name, place, known, document, source)
    _check_circles(document, source)
    _check_effects(document, source)


def facts(document: SpaceDocument) -> frozenset[str]:
    """The names of the machine and of the workloads."""
    return frozenset({*ASSUMED.facts(), *workload_facts(document.loads)})


def asked_names(document: SpaceDocument) -> frozenset[str]:
    """All names that any expression of a search space asks for."""
    return frozenset(name for _, text, _ in expressions(document) for name in parse(text).names)


def expressions(document: SpaceDocument) -> Iterator[tuple[Place, str, frozenset[str]]]:
    """Every expression with its place and the names that it may use."""
    given = facts(document)
    parameters = given | document.parameters.keys()
    everything = parameters | document.computed.keys()
    for name, parameter in document.parameters.items():
        if parameter.when is not None:
            yield ("parameters", name, "when"), parameter.when, parameters
    for name, group in document.groups.items():
        place: Place = ("groups", name)
        if group.when is not None:
            yield (*place, "when"), group.when, parameters
        if group.require is not None:
            yield (*place, "require"), group.require, given | set(group.members)
        for key in ("equals", "divides"):
            amount = getattr(group.parallel, key, None)
            if isinstance(amount, str):
                yield (*place, "parallel", key), amount, given
    for name, item in document.computed.items():
        yield ("computed", name, "value"), item.value, everything
    for index, rule in enumerate(document.rules):
        key = "forbid" if rule.forbid is not None else "require"
        yield ("rules", index, key), str(rule.forbid or rule.require), everything


def _unknown(
    name: str, place: Place, known: Collection[str], document: SpaceDocument, source: Document
) -> Exception:
    if name in document.groups:
        members = ", ".join(document.groups[name].members)
        return source.error(place, f"{name} is a group", f"name one of its parameters: {members}")
    if name in document.computed or name in document.parameters:
        return source.error(place, f"{name} cannot be used here", "see the reference for names")
    if name.startswith("workload.") and document.workloads is not None:
        names = ", ".join(f"workloads.{one}{name[8:]}" for one in document.workloads)
        return source.error(place, f"{name}: there are several workloads", f"write {names}")
    guess = nearest(name, (*known, "true", "false", "null"))
    mend = f"did you mean {guess}?" if guess else f"text is quoted: '{name}'"
    return source.error(place, f"{name} is not a name that is known", mend)


def _check_circles(document: SpaceDocument, source: Document) -> None:
    try:
        axis_order(document)
    except CycleError as error:
        circle = list(error.args[1])
        key = "groups" if circle[0] in document.groups else "parameters"
        raise source.error(
            (key, circle[0], "when"),
            f"the conditions go in a circle: {' → '.join(circle)}",
            "take one of them out",
        ) from error
    try:
        computed_order(document)
    except CycleError as error:
        circle = list(error.args[1])
        raise source.error(
            ("computed", circle[0]),
            f"the computed values go in a circle: {' → '.join(circle)}",
            "compute one of them from something else",
        ) from error


def _check_effects(document: SpaceDocument, source: Document) -> None:
    """Refuse a parameter or a computed value that changes nothing of what is started."""
    used = _useful_names(document)
    for name, parameter in document.parameters.items():
        if parameter.aim is None and parameter.bundle is None and name not in used:
            raise source.error(
                ("parameters", name),
                f"{name} would do nothing: it sets nothing and nothing that is set hangs on it",
                "give it a flag, an env or a setting, or use it in a computed value",
            )
    for name, item in document.computed.items():
        if item.aim is None and name not in used:
            raise source.error(
                ("computed", name),
                f"{name} would do nothing: it sets nothing and nothing that is set hangs on it",
                "give it a flag, an env or a setting, or use it in a rule",
            )


def _useful_names(document: SpaceDocument) -> frozenset[str]:
    """Names that have an effect through others: conditions, computed values, a rule's computed."""
    texts = [item.value for item in document.computed.values()]
    texts += [item.when for item in document.parameters.values() if item.when is not None]
    texts += [group.when for group in document.groups.values() if group.when is not None]
    used = {name for text in texts for name in parse(text).names}
    ruled = {
        name
        for rule in document.rules
        for name in parse(str(rule.forbid or rule.require)).names
        if name in document.computed
    }
    return frozenset(used | ruled)

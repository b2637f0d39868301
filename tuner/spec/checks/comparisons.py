"""Comparisons with values that a name never has: a typing error makes a rule that never speaks."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.spec.checks.names import expressions
from tuner.spec.document import SpaceDocument
from tuner.spec.evaluation import Value, same, show
from tuner.spec.expression import parse
from tuner.spec.outcomes import declared
from tuner.spec.strict_yaml import Document, Place
from tuner.spec.syntax import Comparison, Items, Literal, Name, Node, nodes
from tuner.spec.values import meaning

_EQUAL = frozenset({"==", "!="})
_MEMBER = frozenset({"in", "not in"})


@dataclass(frozen=True, slots=True)
class Vain:
    """A comparison of a name with a value that it never has.

    Attributes:
        place: Where the expression stands.
        name: The name.
        value: The value.
        meant: The value that was probably meant; none where nothing comes near, as when the values of
            a parameter were narrowed and its conditions left as they were.
    """

    place: Place
    name: str
    value: Value
    meant: tuple[Value, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} is never {show(self.value)}"


def check_comparisons(document: SpaceDocument, source: Document) -> None:
    """Refuse comparisons with a value that was probably meant to be another.

    Raises:
        SpaceError: At the first such one.
    """
    for found in vain(document):
        for meant in found.meant:
            raise source.error(found.place, str(found), f"did you mean {show(meant)}?")


def vain(document: SpaceDocument) -> Iterator[Vain]:
    """All comparisons of a name with a value that it never has."""
    for place, text, _ in expressions(document):
        for node in nodes(parse(text).tree):
            for name, value in _compared(node):
                known = _values(document, name)
                if known is not None and not any(same(value, one) for one in known):
                    yield Vain(place, name, value, _meant(value, known))


def _compared(node: Node) -> Iterator[tuple[str, Value]]:
    """The names and the values that a comparison holds against each other."""
    match node:
        case Comparison(sign, Name(name), Literal(value)) if sign in _EQUAL:
            yield name, value
        case Comparison(sign, Literal(value), Name(name)) if sign in _EQUAL:
            yield name, value
        case Comparison(sign, Name(name), Items(items)) if sign in _MEMBER:
            yield from ((name, item.value) for item in items if isinstance(item, Literal))


def _values(document: SpaceDocument, name: str) -> tuple[Value, ...] | None:
    """All values of a parameter; None where they are not written out."""
    parameter = document.parameters.get(name)
    if parameter is None:
        return None
    if parameter.switch is not None:
        return (False, True)
    if parameter.bundle is not None:
        return tuple(parameter.bundle)
    return tuple(meaning(value) for value in declared(document, name)) or None


def _meant(value: Value, known: tuple[Value, ...]) -> tuple[Value, ...]:
    """The known value that looks like another: of another kind, or with a typing error."""
    written = {_bare(one): one for one in reversed(known)}
    if _bare(value) in written:
        return (written[_bare(value)],)
    near = difflib.get_close_matches(_bare(value), written, n=1, cutoff=0.8)
    return (written[near[0]],) if near and isinstance(value, str) else ()


def _bare(value: Value) -> str:
    """A value as a person would type it, without quotes and capitals."""
    return (value if isinstance(value, str) else show(value)).casefold()

"""The texts that a parameter or a computed value may come to, known from the file alone."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.spec.document import SpaceDocument
from tuner.spec.expression import parse
from tuner.spec.syntax import Choice, Literal, Name, Node
from tuner.spec.values import Choice as Value


def outcomes(document: SpaceDocument, name: str) -> tuple[str, ...]:
    """Every text that a parameter or a computed value may come to, each once.

    Texts are never put together from others, so those that an expression may come to stand in it or
    are values of the parameters that it names. Some of them may be out of reach.
    """
    found: dict[str, None] = {}
    wanted, seen = [name], set[str]()
    while wanted:
        one = wanted.pop(0)
        if one in document.parameters and one not in seen:
            values = declared(document, one)
            found |= dict.fromkeys(value for value in values if isinstance(value, str))
            found |= dict.fromkeys(document.parameters[one].bundle or ())
        elif one in document.computed and one not in seen:
            for node in _results(parse(document.computed[one].value).tree):
                if isinstance(node, Name):
                    wanted.append(node.name)
                elif isinstance(node.value, str):
                    found[node.value] = None
        seen.add(one)
    return tuple(found)


def _results(node: Node) -> Iterator[Literal | Name]:
    """The constants and the names that an expression may come to."""
    match node:
        case Literal() | Name():
            yield node
        case Choice(_, yes, no):
            yield from _results(yes)
            yield from _results(no)


def declared(document: SpaceDocument, name: str) -> tuple[Value, ...]:
    """The values of a parameter that are written out, its own or its group's; none for a range."""
    parameter = document.parameters[name]
    if parameter.choices is not None:
        return parameter.choices
    for group in document.groups.values():
        rows = [(row[name],) for row in group.points or () if name in row]
        grids = group.grids or (group.together or {},)
        columns = [*rows, *(grid[name] for grid in grids if name in grid)]
        if columns:
            return tuple(value for column in columns for value in column)
    return ()

"""The tree of an expression, and the one spelling of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Constant = None | bool | int | float | str


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is written out."""

    value: Constant


@dataclass(frozen=True, slots=True)
class Name:
    """A value that is looked up."""

    name: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One of the functions, applied."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Negative:
    """A number with its sign turned."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Chain:
    """Sums or products: a first operand, then operators with theirs, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared; ``operator`` may also be ``in`` and ``not in``."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a truth value."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Logic:
    """Truth values joined by one ``operator``, ``and`` or ``or``; computed no further than needed."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of two values, by a condition."""

    condition: Node
    yes: Node
    no: Node


Node = Literal | Name | Items | Call | Negative | Chain | Comparison | Not | Logic | Choice


def names(node: Node) -> Iterator[str]:
    """All names in a tree, once for each time that they stand in it."""
    for one in nodes(node):
        if isinstance(one, Name):
            yield one.name


def nodes(node: Node) -> Iterator[Node]:
    """A tree and all trees in it."""
    yield node
    for child in _children(node):
        yield from nodes(child)


def _children(node: Node) -> Iterable[Node]:
    match node:
        case Items(items) | Call(_, items) | Logic(_, items):
            return items
        case Negative(operand) | Not(operand):
            return (operand,)
        case Chain(first, rest):
            return (first, *(item for _, item in rest))
        case Comparison(_, left, right):
            return (left, right)
        case Choice(condition, yes, no):
            return (condition, yes, no)
    return ()


def unparse(node: Node) -> str:
    """The tree as text, with every parenthesis written: one spelling for one meaning."""
    match node:
        case Literal(value):
            return _constant(value)
        case Name(name):
            return name
        case Items(items):
            return f"[{_list(items)}]"
        case Call(function, arguments):
            return f"{function}({_list(arguments)})"
    return f"({_operation(node)})"


def _operation(node: Negative | Chain | Comparison | Not | Logic | Choice) -> str:
    match node:
        case Negative(operand):
            return f"- {unparse(operand)}"
        case Chain(first, rest):
            return unparse(first) + "".join(f" {sign} {unparse(item)}" for sign, item in rest)
        case Comparison(operator, left, right):
            return f"{unparse(left)} {operator} {unparse(right)}"
        case Not(operand):
            return f"not {unparse(operand)}"
        case Logic(operator, operands):
            return f" {operator} ".join(unparse(item) for item in operands)
        case Choice(condition, yes, no):
            return f"{unparse(yes)} if {unparse(condition)} else {unparse(no)}"


def _list(items: Iterable[Node]) -> str:
    return ", ".join(unparse(item) for item in items)


def _constant(value: Constant) -> str:
    if isinstance(value, str):
        quote = '"' if "'" in value else "'"
        return f"{quote}{value}{quote}"
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else repr(value)

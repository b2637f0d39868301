"""What an expression comes to, for given values of its names.

Kinds are kept apart: arithmetic and order are for numbers, ``and``, ``or`` and ``not`` are for
truth values, and values of different kinds are never equal (``true`` is not 1, ``'4'`` is not 4).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Final

from tuner.spec.expression import Expression, ExpressionError
from tuner.spec.syntax import (
    Call,
    Chain,
    Choice,
    Comparison,
    Items,
    Literal,
    Logic,
    Name,
    Negative,
    Node,
    Not,
)

Value = None | bool | int | float | str | tuple["Value", ...]
"""What a name may stand for and an expression may come to."""


class Absent(Exception):
    """Raised when an expression needs a parameter that is absent at this point.

    Args:
        name: The parameter.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} is absent")


_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_ORDER: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expression: Expression, names: Mapping[str, Value]) -> Value:
    """The value of an expression.

    Args:
        expression: What to compute.
        names: The values of the names; a name that is not in it is absent.

    Raises:
        Absent: When the value hangs on an absent name. ``and``, ``or`` and ``if`` look no further
            than they need, so ``impl == 'native' or tiny_max > 4`` does not ask for ``tiny_max``
            where the first part is true.
        ExpressionError: When values are of the wrong kind, or a division is by zero.
    """
    return _value(expression.tree, names)


def holds(expression: Expression, names: Mapping[str, Value]) -> bool:
    """The truth value of an expression.

    Raises:
        Absent: As for :func:`evaluate`.
        ExpressionError: Also when the value is no truth value.
    """
    return _truth(evaluate(expression, names), expression.text)


def _value(node: Node, names: Mapping[str, Value]) -> Value:
    match node:
        case Literal(value):
            return value
        case Name(name):
            if name not in names:
                raise Absent(name)
            return names[name]
        case Items(items):
            return tuple(_value(item, names) for item in items)
        case Choice(condition, yes, no):
            chosen = yes if _truth(_value(condition, names), "the condition of if") else no
            return _value(chosen, names)
        case Not(operand):
            return not _truth(_value(operand, names), "what follows not")
        case Logic():
            return _logic(node, names)
        case Comparison():
            return _comparison(node, names)
    return _arithmetic(node, names)


def _arithmetic(node: Call | Negative | Chain, names: Mapping[str, Value]) -> Value:
    match node:
        case Call():
            return _call(node, names)
        case Negative(operand):
            return -_number(_value(operand, names), "-")
        case Chain(first, rest):
            total = _number(_value(first, names), rest[0][0])
            for sign, item in rest:
                total = _apply(sign, total, _number(_value(item, names), sign))
            return total


def _apply(sign: str, left: float, right: float) -> float:
    try:
        result = _ARITHMETIC[sign](left, right)
        undefined = math.isnan(result)
    except ZeroDivisionError:
        raise ExpressionError(f"{show(left)} {sign} 0 has no value") from None
    except OverflowError:
        raise ExpressionError(f"{sign}: the numbers are too large") from None
    if undefined:
        raise ExpressionError(f"{show(left)} {sign} {show(right)} has no value")
    return result


def _logic(node: Logic, names: Mapping[str, Value]) -> bool:
    stop = node.operator == "or"
    for operand in node.operands:
        if _truth(_value(operand, names), f"a part of {node.operator!r}") is stop:
            return stop
    return not stop


def _comparison(node: Comparison, names: Mapping[str, Value]) -> bool:
    left = _value(node.left, names)
    right = _value(node.right, names)
    sign = node.operator
    if sign in _ORDER:
        return _ORDER[sign](_number(left, sign), _number(right, sign))
    if sign in {"==", "!="}:
        return same(left, right) is (sign == "==")
    if not isinstance(right, tuple):
        raise ExpressionError(f"{sign!r} needs a list on its right, which {show(right)} is not")
    return any(same(left, item) for item in right) is (sign == "in")


def _call(node: Call, names: Mapping[str, Value]) -> float:
    numbers = [_number(_value(item, names), node.function) for item in node.arguments]
    if node.function in {"min", "max"}:
        if not numbers:
            raise ExpressionError(f"{node.function} needs at least one number")
        return min(numbers) if node.function == "min" else max(numbers)
    if len(numbers) != 1:
        raise ExpressionError(f"{node.function} takes one number")
    if not math.isfinite(numbers[0]):
        raise ExpressionError(f"{node.function} has no value for {show(numbers[0])}")
    whole: dict[str, Callable[[float], int]] = {
        "ceil": math.ceil,
        "floor": math.floor,
        "round": round,
    }
    return whole[node.function](numbers[0])


def same(left: Value, right: Value) -> bool:
    """Whether two values are equal: of one kind, and alike; 1 and 1.0 are one number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def whole(value: Value) -> Value:
    """A computed value as it is given to a server: 8.0 is 8, which every parser takes."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _number(value: Value, sign: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExpressionError(f"{sign!r} needs numbers, which {show(value)} is not")
    return value


def _truth(value: Value, what: str) -> bool:
    if not isinstance(value, bool):
        raise ExpressionError(f"{what} must be true or false, and is {show(value)}")
    return value


def show(value: Value) -> str:
    """A value as the language writes it, for messages."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(show, value))}]"
    words = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return words[value]
    return repr(value)

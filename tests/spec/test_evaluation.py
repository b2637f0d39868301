from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.spec.evaluation import Absent, Value, evaluate, holds, same, show
from tuner.spec.expression import ExpressionError, parse

NAMES: dict[str, Value] = {
    "a": 4,
    "b": 2.5,
    "t": True,
    "s": "loop",
    "n": None,
    "l": (1, "x"),
    "workload.concurrency": 3,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * workload.concurrency", 6),
        ("a / 8", 0.5),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("1 - 2 - 3", -4),
        ("min(a, b, 3)", 2.5),
        ("max(a)", 4),
        ("ceil(b)", 3),
        ("floor(-b)", -3),
        ("round(2.5)", 2),
        ("round(3.5)", 4),
        ("s == 'loop'", True),
        ("s != 'loop'", False),
        ("a == 4.0", True),
        ("t == 1", False),
        ("a == '4'", False),
        ("n == null", True),
        ("n == false", False),
        ("a in [1, 4]", True),
        ("s not in ['native']", True),
        ("1 in l", True),
        ("true in l", False),
        ("l == [1, 'x']", True),
        ("t and a > 3", True),
        ("not t or b <= 2.5", True),
        ("'big' if a > 3 else 'small'", "big"),
        ("[a, 1 + 1]", (4, 2)),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = evaluate(parse(text), NAMES)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a + s", "'+' needs numbers, which 'loop' is not"),
        ("t + 1", "'+' needs numbers, which true is not"),
        ("s < 3", "'<' needs numbers, which 'loop' is not"),
        ("n > 1", "which null is not"),
        ("-s", "'-' needs numbers"),
        ("not a", "what follows not must be true or false, and is 4"),
        ("a and t", "a part of 'and' must be true or false"),
        ("1 if a else 2", "the condition of if must be true or false"),
        ("a in s", "'in' needs a list on its right, which 'loop' is not"),
        ("a / 0", "4 / 0 has no value"),
        ("a % 0", "has no value"),
        ("a // 0.0", "has no value"),
        ("min()", "min needs at least one number"),
        ("ceil(1, 2)", "ceil takes one number"),
        ("max(l)", "'max' needs numbers, which [1, 'x'] is not"),
        ("inf - inf", "has no value"),
        ("ceil(inf)", "ceil has no value for inf"),
        ("x * 1.5", "too large"),
    ],
)
def test_wrong_kinds_are_said(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(parse(text), {**NAMES, "inf": math.inf, "x": 10**400})
    assert said in str(caught.value)


def test_an_absent_name_is_met_only_where_the_answer_hangs_on_it() -> None:
    assert holds(parse("s == 'loop' or gone > 4"), NAMES)
    assert not holds(parse("s != 'loop' and gone > 4"), NAMES)
    assert evaluate(parse("1 if t else gone"), NAMES) == 1
    with pytest.raises(Absent, match="gone is absent"):
        evaluate(parse("gone == null"), NAMES)


def test_a_condition_must_come_to_true_or_false() -> None:
    with pytest.raises(ExpressionError, match=r"a \+ 1 must be true or false, and is 5"):
        holds(parse("a + 1"), NAMES)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, False, False),
        ("1", 1, False),
        ((1, (2,)), (1.0, (2,)), True),
        ((1,), (1, 2), False),
    ],
)
def test_same_keeps_kinds_apart(left: Value, right: Value, *, equal: bool) -> None:
    assert same(left, right) is equal
    assert same(right, left) is equal


def test_show_writes_what_the_language_reads() -> None:
    for value in (None, True, 3, 2.5, "x", (1, "y")):
        assert evaluate(parse(show(value)), {}) == value


numbers = st.integers(-20, 20) | st.floats(-20, 20).map(lambda x: round(x, 3))
number_names = st.sampled_from(["a", "b"])


def sums(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.sampled_from(["+", "-", "*", "/", "//", "%"])
    return st.one_of(
        st.tuples(inner, signs, inner).map(lambda x: f"{x[0]} {x[1]} {x[2]}"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda x: f"{x[0]}({x[1]}, {x[2]})"
        ),
        inner.map(lambda x: f"({x})"),
        inner.map(lambda x: f"- ({x})"),
    )


arithmetic = st.recursive(numbers.map(lambda x: f"({x})") | number_names, sums, max_leaves=8)


def logics(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda x: f"{x[0]} {x[1]} {x[2]}"
        ),
        inner.map(lambda x: f"not ({x})"),
        inner.map(lambda x: f"({x})"),
    )


comparisons = st.tuples(
    arithmetic, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), arithmetic
).map(lambda x: f"{x[0]} {x[1]} {x[2]}")
truths = st.recursive(comparisons, logics, max_leaves=6)
choices = st.tuples(arithmetic, truths, arithmetic).map(lambda x: f"{x[0]} if {x[1]} else {x[2]}")


@pytest.mark.slow
@settings(max_examples=500)
@given(arithmetic | truths | choices, numbers, numbers)
def test_it_computes_what_python_computes(text: str, a: float, b: float) -> None:
    """Where both languages have a value, it is the same; where Python divides by zero, so do we."""
    python = compile(text, "<test>", "eval")
    try:
        wanted = eval(python, {"min": min, "max": max}, {"a": a, "b": b})  # noqa: S307 - the oracle
    except (ZeroDivisionError, OverflowError):
        with pytest.raises(ExpressionError):
            evaluate(parse(text), {"a": a, "b": b})
        return
    found = evaluate(parse(text), {"a": a, "b": b})
    assert found == wanted
    assert type(found) is type(wanted)
    assert evaluate(parse(parse(text).canonical), {"a": a, "b": b}) == wanted

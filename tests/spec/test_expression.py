from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.spec.expression import MAX_DEPTH, MAX_LENGTH, ExpressionError, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1+2*3", "(1 + (2 * 3))"),
        ("(1+2)*3", "((1 + 2) * 3)"),
        ("1-2-3", "(1 - 2 - 3)"),
        ("-a*b", "((- a) * b)"),
        ("--1", "(- (- 1))"),
        ("7//2%3", "(7 // 2 % 3)"),
        ("a<b and c or not d", "(((a < b) and c) or (not d))"),
        ("not a == b", "(not (a == b))"),
        ("a in ['x', \"y\",]", "(a in ['x', 'y'])"),
        ("a not  in [1]", "(a not in [1])"),
        ("1 if a else 2 if b else 3", "(1 if a else (2 if b else 3))"),
        ("min(a, 2)", "min(a, 2)"),
        ("2 * workload.concurrency", "(2 * workload.concurrency)"),
        ("true and null == false", "(true and (null == false))"),
        ("1e3 + .5 + 2.", "(1000.0 + 0.5 + 2.0)"),
        ('"it\'s"', '"it\'s"'),
        ("[]", "[]"),
        ("  a  ", "a"),
    ],
)
def test_text_becomes_the_tree_that_it_says(text: str, canonical: str) -> None:
    assert parse(text).canonical == canonical
    assert parse(canonical).canonical == canonical


def test_names_are_known() -> None:
    found = parse("a + min(b, workload.x) if c == 'a' else a")
    assert found.names == {"a", "b", "c", "workload.x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a value is missing (character 1)"),
        ("1 +", "a value is missing (character 4)"),
        ("a b", "'b' is not expected here (character 3)"),
        ("a < b < c", "write a < b and b < c (character 7)"),
        ("a = 3", "'=' at character 3 is not part of the language: write =="),
        ("a && b", "'&' at character 3 is not part of the language: write and"),
        ("!a", "write not"),
        ("a <> 'x'", "'<>' at character 3 is not part of the language: write !="),
        ("a => 3", "'=>' at character 3 is not part of the language: write >="),
        ("a =< 3", "write <="),
        ("a === 3", "write =="),
        ("a !== 3", "write !="),
        ("a is not 'x'", "'is not' at character 3 is not part of the language: write !="),
        ("a is 'x'", "'is' at character 3 is not part of the language: write =="),
        ("a AND b", "write and"),
        ("a == 'is' b", "'b' is not expected here (character 11)"),
        ("this island", "'island' is not expected here (character 6)"),
        ("a ** 2", "'*' is no value (character 4)"),
        ("'open", "the text that begins at character 1 is never closed"),
        ("(1", "')' is missing after the parenthesis (character 3)"),
        ("[1", "']' is missing after the list"),
        ("min 1", "'(' is missing after min"),
        ("1 if a", "'else' is missing after the condition"),
        ("a not b", "'in' is missing after not"),
        ("and", "'and' is not expected here"),
        ("else", "'else' is not expected here"),
        ("open('x')", "'(' is not expected here"),
        ("a.__class__.__init__()", "'(' is not expected here"),
        ("a[0]", "'[' is not expected here"),
        ("lambda: 1", "':' at character 7"),
        ("a.", "'.' at character 2"),
        ("1.2.3", "'.3' is not expected here"),
        ("é", "'é' at character 1"),
        ("a;b", "';' at character 2"),
        ("f'x'", "is not expected here"),
        ("a if", "a value is missing"),
    ],
)
def test_mistakes_are_said_with_their_place(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50 + "1" + ")" * 50,
        "-" * 50 + "1",
        "not " * 50 + "a",
        "1 if a else " * 50 + "2",
        "[" * 50,
    ],
)
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(ExpressionError, match=f"deeper than {MAX_DEPTH}"):
        parse(text)


def test_length_is_bounded_and_long_sums_are_no_depth() -> None:
    assert parse("1" + "+1" * 499).canonical.count("+") == 499
    with pytest.raises(ExpressionError, match="over 1000 characters"):
        parse("1" * (MAX_LENGTH + 1))


@settings(max_examples=400)
@given(st.text(alphabet="ab1.+-*/%<>=!()[], 'ifelsnotrdu\"", max_size=50))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        found = parse(text)
    except ExpressionError:
        return
    assert parse(found.canonical).canonical == found.canonical

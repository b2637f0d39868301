from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.report.text import AS_BASELINE, changes, clean, one_line, value


@given(st.text())
def test_what_is_not_seen_is_not_kept(text: str) -> None:
    kept = clean(text)
    assert all(c in "\n\t" or unicodedata.category(c)[0] != "C" for c in kept)
    assert len(kept) == len(text)
    assert "\n" not in one_line(text)


def test_a_long_text_is_cut_and_says_so() -> None:
    assert clean("x" * 30, longest=10) == "x" * 10 + " … (20 more)"


@pytest.mark.parametrize(
    ("given", "said"),
    [(True, "on"), (False, "off"), (None, "null"), (0.5, "0.5"), ("a b", "a b"), ([1], "[1]")],
)
def test_values_for_people(given: object, said: str) -> None:
    assert value(given) == said


def test_how_a_point_differs_from_the_baseline() -> None:
    base = {"a": 1, "b": True, "c": "x"}
    assert changes(base, base) == AS_BASELINE
    assert changes({"a": 2, "b": True}, base) == "a=2, without c"
    assert changes({**base, "d": None}, base) == "d=null"

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.mends import among, fitting, known_keys, meant, nearest, share, shown

WORDS = ["'pair' or 'bare'"]


def test_the_nearest_word_is_found_whatever_its_capitals() -> None:
    assert nearest("TPE", ["tpe", "grid"]) == "tpe"
    assert nearest("conv", ["decode_curve", "conversations"]) == "conversations"
    assert nearest("xyz", ["tpe"]) is None
    assert meant("CPU", ["cpu", "cuda"]) == "did you mean cpu?"
    assert meant("xyz", ["cpu", "cuda"]) == "known are cpu, cuda"
    assert meant("xyz", []) == "known are none"


@given(st.lists(st.text(min_size=1), min_size=1), st.data())
def test_a_known_word_is_the_nearest_to_itself(known: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(known))
    found = nearest(word, known)
    assert found is not None
    assert found.casefold() == word.casefold()
    assert found in known


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["a", "b"], "known here are a, b"),
        ([], "delete it"),
        ([str(i) for i in range(30)], "delete it"),
    ],
)
def test_the_keys_that_may_stand_there(keys: list[str], said: str) -> None:
    assert known_keys(keys) == said


@pytest.mark.parametrize(
    ("value", "words", "said"),
    [
        ("pairs", WORDS, "'pairs'"),
        ("1", ["1"], "the text '1'"),
        (2, ["1"], "2"),
        ("x" * 41, WORDS, "text"),
        (True, WORDS, "true or false"),
        ("hidden", [], "text"),
        (2, [], "a number"),
        (0.5, [], "a number with a point"),
        ((), [], "a list"),
        ({}, [], "a mapping"),
        (None, [], "empty"),
    ],
)
def test_only_where_a_few_words_are_wanted_is_what_stands_there_repeated(
    value: Any, words: list[str], said: str
) -> None:
    assert shown(value, words) == said


@pytest.mark.parametrize(
    ("value", "words", "said"),
    [
        ("pairs", WORDS, "did you mean pair?"),
        ("1", ["1"], "write it without quotes"),
        ("both", WORDS, None),
        (False, ["'off'"], "write off"),
        ("No", ["'off'"], "write off"),
        (True, ["'off'"], None),
        (False, WORDS, None),
        ("Replay", ["'replay', 'dataset'"], "did you mean replay?"),
    ],
)
def test_the_word_that_was_meant(value: Any, words: list[str], said: str | None) -> None:
    assert among(value, words) == said


@pytest.mark.parametrize(
    ("value", "bound", "said"),
    [
        (99, 1.0, "write a share: 0.99 for 99 %"),
        (99.5, 1, "write a share: 0.995 for 99.5 %"),
        (101, 1, None),
        (0.5, 1, None),
        (99, 2, None),
        ("99", 1, None),
    ],
)
def test_per_cent_as_a_share(value: Any, bound: float, said: str | None) -> None:
    assert share(value, bound) == said


@pytest.mark.parametrize(
    ("wanted", "value", "said"),
    [
        (["text"], 1, "quote it"),
        (["text"], "x", None),
        (["text", "a number"], (), None),
        (["a number"], "1.5", "write it without quotes"),
        (["true or false"], "true", "write it without quotes"),
        (["a number"], "80 %", "write a share: 0.8"),
        (["a whole number"], "10s", "write the number alone: 10"),
        (["a whole number"], "ten", None),
        (["a whole number"], (1, 2), None),
        (["a list"], "1, 2", "write it in brackets: [1, 2]"),
        (["a list"], 4, "write it in brackets: [4]"),
        (["a list"], True, "write it in brackets"),
        (["a list"], "x" * 60, "write it in brackets"),
        (["a mapping"], 1, None),
    ],
)
def test_how_a_value_is_to_be_written(wanted: list[str], value: Any, said: str | None) -> None:
    assert fitting(wanted, value) == said

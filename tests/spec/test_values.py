from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tuner.spec.values import (
    Choice,
    ChoiceValue,
    EnvValue,
    FileValue,
    FlagValue,
    ListValue,
    SecretValue,
    flag_items,
    json_text,
    key,
    label,
    list_items,
    meaning,
    text_of,
)

CHOICE: TypeAdapter[Choice] = TypeAdapter(ChoiceValue)


def test_choices_keep_their_kind() -> None:
    for value in ("auto", 4, 0.5, True, None, math.inf, (1, "a"), "4"):
        found = CHOICE.validate_python(value)
        assert found == value
        assert type(found) is type(value)
    assert CHOICE.validate_python({"file": "a.json"}) == FileValue(file="a.json")


@pytest.mark.parametrize(
    "value", ["a\nb", "a\0", "x" * 8193, math.nan, (), {"fil": "x"}, {"file": ""}]
)
def test_values_that_no_server_can_be_given(value: object) -> None:
    with pytest.raises(ValidationError):
        CHOICE.validate_python(value)


def test_fixed_values_have_more_forms() -> None:
    flag: TypeAdapter[object] = TypeAdapter(FlagValue)
    assert isinstance(flag.validate_python({"list": (1, 2), "join": "comma"}), ListValue)
    assert isinstance(flag.validate_python({"file": "a"}), FileValue)
    assert flag.validate_python({"file": "a", "b": 1}) == {"file": "a", "b": 1}
    env: TypeAdapter[object] = TypeAdapter(EnvValue)
    assert isinstance(env.validate_python({"from_env": "HF_TOKEN"}), SecretValue)


def test_labels_are_json_and_tell_choices_apart() -> None:
    values = ("4", 4, True, None, math.inf, "a", (1, "a"), FileValue(file="a"))
    keys = [key(label(value)) for value in values]
    assert len(set(keys)) == len(values)
    for value in values:
        assert json.loads(key(label(value))) == label(value)


def test_meanings() -> None:
    assert meaning(FileValue(file="a.json")) == "a.json"
    assert meaning((1, 2)) == (1, 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (4, "4"), (0.5, "0.5"), (1e3, "1000.0"), (math.inf, "inf"), (-math.inf, "-inf")],
)
def test_texts(value: str | float, text: str) -> None:
    assert text_of(value) == text


def test_arguments_stay_values() -> None:
    assert flag_items("--x", "4") == ("--x", "4")
    assert flag_items("--x", "-1") == ("--x=-1",)
    assert flag_items("--x", "--y") == ("--x=--y",)
    assert flag_items("--x", "") == ("--x=",)
    assert list_items("--x", ("a", "b"), "comma") == ("--x", "a,b")
    assert list_items("--x", ("a", "b"), "space") == ("--x", "a", "b")
    assert list_items("--x", ("a", "-b"), "repeat") == ("--x", "a", "--x=-b")


@given(st.text(min_size=0, max_size=20))
def test_no_value_becomes_a_flag(text: str) -> None:
    items = flag_items("--x", text)
    assert items[0].startswith("--x")
    assert len(items) == 1 or not items[1].startswith("-")
    assert "".join(items).endswith(text)


def test_json_is_one_text_for_one_value() -> None:
    assert json_text({"b": 1, "a": {"d": (1, 2), "c": None}}) == '{"a":{"c":null,"d":[1,2]},"b":1}'

from __future__ import annotations

import pytest
import yaml
from hypothesis import given

from tests.export.samples import WORDS
from tuner.export.yamltext import dump


@given(WORDS)
def test_a_text_stays_that_text(text: str) -> None:
    assert yaml.safe_load(dump({"a": [text]})) == {"a": [text]}


@pytest.mark.parametrize(
    "text", ["1e3", "0o17", "1:30", "y", "N", "off", "~", "", ".5", "+1", "-1", "1_000", "=", "<<"]
)
def test_what_another_reader_may_take_for_something_else_is_quoted(text: str) -> None:
    assert dump({"a": text}) == f"a: '{text}'\n"


@pytest.mark.parametrize("text", ["--max-num-seqs", "-tp", "/model", "vllm.entrypoints.openai"])
def test_ordinary_words_stay_bare(text: str) -> None:
    assert dump({"a": text}) == f"a: {text}\n"


def test_the_same_list_twice_makes_no_alias() -> None:
    same = ["x"]
    assert "*" not in dump({"a": same, "b": same})


def test_a_long_word_stays_on_its_line() -> None:
    assert dump({"a": "x " * 10_000}).count("\n") == 1

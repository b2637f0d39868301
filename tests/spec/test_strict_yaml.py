from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import SpaceError
from tuner.spec.strict_yaml import (
    MAX_BYTES,
    MAX_DEPTH,
    Document,
    Mark,
    parse_document,
    read_text,
)

FILE = Path("a.yaml")


def parse(text: str | bytes) -> Document:
    return parse_document(text, FILE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("Off", "Off"),
        ("1:30", "1:30"),
        ("16k", "16k"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("0", 0),
        ("-3", -3),
        ("+5", 5),
        ("1e3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-2.5E-1", -0.25),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("inf", "inf"),
        ("'4'", "4"),
        ('"true"', "true"),
        ("'~'", "~"),
        ("9223372036854775807", 9223372036854775807),
        ("1.20.3", "1.20.3"),
        ("--flag", "--flag"),
        ("0.0.0.0", "0.0.0.0"),  # noqa: S104 - text, nothing is bound
        ("|\n  two\n  lines", "two\nlines"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: Any) -> None:
    found = parse(f"key: {text}").data["key"]
    assert found == value
    assert type(found) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(parse("key: .nan").data["key"])


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\nb: 010", 2, "010 can be read in two ways"),
        ("a: 0x1F", 1, "two ways"),
        ("a: -007", 1, "two ways"),
        ("a: 9223372036854775808", 1, "64 bits"),
        ("a: 1e999", 1, "too large"),
        ("a: 1\n\na: 2", 3, "'a' stands twice, first in line 1"),
        ("a:\n  b: 1\n  'b': 2", 3, "stands twice"),
        ("x: &anchor 1", 1, "anchors are not taken"),
        ("x: &a [1]\ny: *a", 1, "anchors"),
        ("y: *a", 1, "aliases are not taken"),
        ("<<: {a: 1}", 1, "merge keys"),
        ("a: !!python/object/apply:os.system ['true']", 1, "!!python/object/apply:os.system"),
        ("a: !!str 1", 1, "tags are not taken"),
        ("a: ! b", 1, "tags are not taken"),
        ("a: !<tag:yaml.org,2002:int> 3", 1, "tags are not taken"),
        ("---\na: 1\n---\nb: 1", 3, "second document"),
        ("%YAML 1.1\n---\na: 1", 1, "directives"),
        ("%TAG ! tag:x,2000:\n---\na: 1", 1, "directives"),
        ("? [a]\n: 1", 1, "a key must be plain text"),
        ("'': 1", 1, "a key is empty"),
        ("a: b: c", 1, "mapping values are not allowed"),
        ("a: 1\n\tb: 2", 2, "indent with spaces"),
        ("a: {when: b in [1, 2]}", 1, "quote text that holds a bracket or a comma"),
        ("a: @b", 1, "quote text that begins with"),
        ("a: [1, 2", 1, "this is not YAML"),
        ("a: 'open", 1, "this is not YAML"),
        ('a: "\\0"', 1, "U+0000"),
        ('a: "\\ud800"', 1, "U+D800"),
        ("a: \x07", 1, "U+0007"),
        ("a: x\u2028b: y", 1, "U+2028"),
        ("a: 1 # \u202e txt", 1, "U+202E"),
        ("", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
    ],
)
def test_what_could_be_misread_is_refused_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(SpaceError) as caught:
        parse(text)
    assert said in str(caught.value)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"a.yaml:{line}: ")


BOMB = "a: &a [x, x]\n" + "\n".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]" for i in range(20)
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "[" * 2000,
        "{a: " * 2000,
        "- " * 2000,
        "? " * 2000,
        "!" * 100_000,
        "&" * 100_000,
        "[" + "a: b, " * 20_000,
        "x" * (MAX_BYTES + 1),
        "é" * (MAX_BYTES // 2 + 1),
        "a: \0",
        "\ud800",
    ],
    ids=lambda text: text[:12].encode("unicode_escape").decode(),
)
@pytest.mark.timeout(10)
def test_hostile_files_are_refused_soon(text: str) -> None:
    with pytest.raises(SpaceError):
        parse(text)


@pytest.mark.parametrize(
    "raw", [b"\xff\xfea\0", b"a: \xe9", "a: 1".encode("utf-16"), "a: 1".encode("utf-32")]
)
def test_other_encodings_are_refused(raw: bytes) -> None:
    with pytest.raises(SpaceError, match=r"UTF-8|cannot be seen"):
        parse(raw)


def test_the_line_of_a_byte_that_is_not_utf8_is_said() -> None:
    with pytest.raises(SpaceError) as caught:
        parse(b"a: 1\nb: \xff")
    assert caught.value.line == 2


def test_a_byte_order_mark_at_the_start_is_passed_over() -> None:
    assert parse("\ufeffa: 1\r\nb: 2\r\n").data == {"a": 1, "b": 2}


def test_depth_is_counted_and_not_size() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse(deep).data is not None
    with pytest.raises(SpaceError, match="deeper"):
        parse(f"[{deep}]")


def test_every_value_keeps_its_place() -> None:
    found = parse("a: 1\nb:\n  - x\n  - {c: 2, d:\n      3}\n")
    assert found.marks[("a",)] == Mark(1, 1)
    assert found.marks[("b", 0)] == Mark(3, 5)
    assert found.marks[("b", 1, "c")] == Mark(4, 6)
    assert found.marks[("b", 1, "d")] == Mark(4, 12)
    assert found.at(("b", 1, "d")) == 3


def test_a_way_that_leads_nowhere_gives_the_nearest_place() -> None:
    found = parse("a:\n  b:\n    - 1\n")
    assert found.place(("a", "union member", "b", 7)) == ("a", "b")
    assert found.line(("a", "b", 0, "x")) == 3
    assert found.line(("nothing",)) == 1


def test_reading_takes_regular_files_only(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="no such file"):
        read_text(tmp_path / "none.yaml")
    with pytest.raises(SpaceError, match="not a regular file"):
        read_text(tmp_path)
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"a" * (MAX_BYTES + 5))
    with pytest.raises(SpaceError, match="over 256 KiB"):
        read_text(huge)


def test_a_file_that_may_not_be_read_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: 1")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SpaceError, match="Permission denied"):
        read_text(file)


keys = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


def _nested(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    text = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"]))
    leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | numbers | text
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=20,
    )


plain = _nested(st.floats(allow_nan=False))
finite = _nested(st.floats(allow_nan=False, allow_infinity=False))


@given(finite)
def test_what_json_writes_is_read_back(value: Any) -> None:
    """JSON is YAML 1.2: what was written comes back, lists as tuples."""
    assert _lists(parse(json.dumps(value)).data) == value


@given(plain)
def test_what_pyyaml_writes_is_read_back(value: Any) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    if text.startswith("---"):
        return
    assert _lists(parse(text).data) == value


def _lists(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value


def read_or_refused(content: str | bytes) -> Document | SpaceError:
    try:
        return parse(content)
    except SpaceError as error:
        return error


@settings(max_examples=300)
@given(st.text(alphabet="ab:-[]{},#&*!|>'\"%@`\n \t0179.e~?\\\0\u2028é", max_size=60))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    found = read_or_refused(text)
    assert found.message if isinstance(found, SpaceError) else () in found.marks


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_and_nothing_else(raw: bytes) -> None:
    assert read_or_refused(raw).file == FILE

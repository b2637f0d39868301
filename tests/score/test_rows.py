from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.score.rows import rows

FILE = Path("records.jsonl")


def read(text: bytes) -> list[tuple[int, dict[str, object]]]:
    return list(rows(text.splitlines(keepends=True), FILE))


def test_json_lines_keep_their_numbers() -> None:
    assert read(b'\n{"a": 1}\n\n{"a": null}\n') == [(2, {"a": 1}), (4, {"a": None})]


def test_csv_rows_and_empty_fields() -> None:
    assert read(b"a,b\n1,\n\n2, x \n") == [(2, {"a": "1", "b": None}), (4, {"a": "2", "b": "x"})]


def test_byte_order_mark() -> None:
    assert read(b'\xef\xbb\xbf{"a": 1}\n') == [(1, {"a": 1})]
    assert read(b"\xef\xbb\xbfa,b\r\n1,2\r\n") == [(2, {"a": "1", "b": "2"})]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (b"", None, "no records"),
        (b"\n \n", None, "no records"),
        (b'{"a": 1}\n{"a": \n', 2, "not a record in JSON"),
        (b'{"a": 1}\n{"a"', 2, "cut off"),
        (b'{"a": 1}\n[1]\n', 2, "JSON object"),
        (b'{"a": NaN}\n', 1, "NaN"),
        (b'{"a": "\xff"}\n', 1, "utf-8"),
        (b'{"a": ' + b"[" * 100_000 + b"\n", 1, "nested"),
        (b"a,b\n1,2\n1,2,3\n", 3, "3 fields where the header names 2"),
        (b"a,a\n1,2\n", 1, "'a' twice"),
        (b'a,b\n1,"2\n', 2, "CSV"),
        (b"a,b\n1,\xff\n", 2, "CSV"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: bytes, line: int | None, why: str) -> None:
    with pytest.raises(UserError, match=why) as caught:
        read(text)
    assert caught.value.line == line
    assert caught.value.file == FILE


@given(st.binary(max_size=200))
def test_any_bytes_are_rows_or_a_user_error(text: bytes) -> None:
    try:
        found = read(text)
    except UserError:
        return
    assert all(isinstance(row, dict) for _, row in found)

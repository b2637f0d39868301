from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import NoSpaceLeft, UserError
from tuner.load.record import ErrorClass, Record
from tuner.load.store import dump_records, parse_record, read_records, record_line, write_records

seconds = st.floats(0, 1e6).map(lambda at: round(at, 7))
counts = st.none() | st.integers(0, 10**7)
records = st.builds(
    Record,
    workload=st.text(max_size=8),
    session=st.integers(0, 10**6),
    turn=st.integers(0, 1000),
    scheduled=seconds,
    sent=st.none() | seconds,
    first_token=st.none() | seconds,
    end=st.none() | seconds,
    chunk_times=st.lists(seconds, max_size=5).map(tuple),
    prompt_tokens=counts,
    cached_tokens=counts,
    output_tokens=counts,
    reasoning_tokens=counts,
    finish_reason=st.none() | st.text(max_size=5),
    error=st.none() | st.sampled_from(ErrorClass),
    detail=st.none() | st.text(max_size=20),
    status=st.none() | st.integers(100, 599),
    answer_digest=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
)


@given(records)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    line = record_line(record)
    assert "\n" not in line
    assert parse_record(json.loads(line)) == record


@given(st.lists(records, max_size=4))
def test_lines(population: list[Record]) -> None:
    out = io.StringIO()
    assert dump_records(population, out) == len(population)
    lines = out.getvalue().split("\n")[:-1]
    assert [parse_record(json.loads(line)) for line in lines] == population


GOOD: dict[str, Any] = {
    "workload": "w",
    "session": 0,
    "turn": 0,
    "scheduled": 0,
    "sent": None,
    "first_token": None,
    "end": None,
}


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "7",
        "[" * 50_000,
        json.dumps({**GOOD, "extra": 1}),
        json.dumps({key: value for key, value in GOOD.items() if key != "sent"}),
        json.dumps({**GOOD, "scheduled": None}),
        json.dumps({**GOOD, "scheduled": "0"}),
        json.dumps({**GOOD, "session": True}),
        json.dumps({**GOOD, "output_tokens": 1.5}),
        json.dumps({**GOOD, "error": "bad luck"}),
        json.dumps({**GOOD, "chunk_times": 3}),
        json.dumps({**GOOD, "chunk_times": ["a"]}),
        json.dumps({**GOOD, "detail": 3}),
    ],
)
def test_a_line_that_is_no_record_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(GOOD) + "\n\n" + line + "\n")
    with pytest.raises(UserError) as caught:
        list(read_records(path))
    assert caught.value.file == path
    assert caught.value.line == 3


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        list(read_records(tmp_path / "none"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="UTF-8"):
        list(read_records(tmp_path / "bytes"))


def test_an_empty_file_is_an_empty_population(tmp_path: Path) -> None:
    write_records(tmp_path / "records.jsonl", [])
    assert list(read_records(tmp_path / "records.jsonl")) == []


@pytest.mark.slow
def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    one = parse_record({**GOOD, "chunk_times": [0.1] * 200})
    write_records(path, (one for _ in range(2000)))
    tracemalloc.start()
    assert sum(1 for _ in read_records(path)) == 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 2


def test_a_full_disk_is_said_in_one_line() -> None:
    with pytest.raises(NoSpaceLeft, match=r"^/dev/full: the records cannot be written: No space"):
        write_records(Path("/dev/full"), [Record("main", 0, 0, 0.0, None, None, None)])


def test_a_folder_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the records cannot be written: No such file"):
        write_records(tmp_path / "none" / "records.jsonl", [])

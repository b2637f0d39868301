from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.load.record import ErrorClass, Record
from tuner.score.columns import Columns, from_records
from tuner.score.measure import measure
from tuner.score.reading import read_loads

Make = Callable[..., Record]
DATA = Path(__file__).parents[1] / "data" / "score"


def as_lines(records: list[Record]) -> list[bytes]:
    return [json.dumps(dataclasses.asdict(record)).encode() + b"\n" for record in records]


def read(text: str) -> dict[str, Columns]:
    return read_loads(text.encode().splitlines(keepends=True), Path("f"))


def test_records_come_back_as_they_were(make_record: Make, make_failure: Make) -> None:
    records = [
        make_record(0.0, answer_digest="ab" * 32, reasoning_tokens=3, session=4, turn=2),
        make_record(3.0, cached=None),
        make_record(5.0, first_token=4.0),
        make_failure(ErrorClass.HTTP_5XX, at=6.0, seconds=1.0),
        make_failure(ErrorClass.NOT_SENT, at=7.0),
    ]
    (found,) = read_loads(as_lines(records), Path("f")).values()
    for name in ("sent", "end", "ttft_s", "e2e_s", "session", "turn", "digest", "clock_faults"):
        expected = getattr(from_records(records), name)
        np.testing.assert_array_equal(getattr(found, name), expected, err_msg=name)
    assert dataclasses.asdict(measure(found)) == dataclasses.asdict(measure(records))


@pytest.mark.parametrize(("run", "count", "p10"), [("655", 156, 3.54284), ("694", 643, 1.95928)])
def test_csv_of_the_platform(run: str, count: int, p10: float) -> None:
    path = DATA / "platform_requests.csv"
    loads = read_loads(path.read_bytes().splitlines(keepends=True), path)
    assert list(loads) == ["655", "694"]
    found = measure(loads[run])
    assert (found.planned, found.succeeded) == (881, count)
    assert found.request_output_tps is not None
    assert found.request_output_tps.p10 == pytest.approx(p10, abs=6e-6)
    assert "no answer said how many tokens were cached" in found.unmeasured["cache_hit_rate"]
    assert "no wall time was given" in found.unmeasured["output_tps"]
    assert found.unmeasured["ttft_s"] == "no success says when its first token came"
    assert not found.faults
    if run == "694":
        assert (found.attempted, found.error_classes["not_started"]) == (683, 198)


@pytest.mark.parametrize("outcome", ["good", "bad"])
def test_lines_without_what_is_not_known(
    outcome: str, make_record: Make, make_failure: Make
) -> None:
    records = [make_record(0.0, cached=None), make_record(3.0, cached=None)]
    if outcome == "bad":
        records = [make_failure(ErrorClass.TIMEOUT, at=i, seconds=2.0) for i in range(2)]
    lines = []
    for record in records:
        known = {k: v for k, v in dataclasses.asdict(record).items() if v not in (None, ())}
        lines.append(json.dumps(known).encode() + b"\n")
    (found,) = read_loads(lines, Path("f")).values()
    assert dataclasses.asdict(measure(found)) == dataclasses.asdict(measure(records))


def test_one_load_for_each_workload(make_record: Make) -> None:
    records = [make_record(i, workload="ab"[i % 2]) for i in range(5)]
    loads = read_loads(as_lines(records), Path("f"))
    assert {name: len(load) for name, load in loads.items()} == {"a": 3, "b": 2}


def test_names_of_other_tools_and_units() -> None:
    (load,) = read("ttft_ms,total_ms,completion_tokens,input_tokens\n500,2000,20,100\n").values()
    found = measure(load, wall_s=4.0)
    assert found.succeeded == 1
    assert found.ttft_s is not None
    assert found.ttft_s.p50 == pytest.approx(0.5)
    assert (found.output_tps, found.prompt_tokens) == (5.0, 100)


def test_without_a_column_of_errors_a_success_is_what_has_tokens() -> None:
    (load,) = read('{"output_tokens": 5, "e2e_s": 1}\n{"output_tokens": null}\n').values()
    found = measure(load)
    assert (found.succeeded, found.error_classes) == (1, {"unknown": 1})


def test_an_outcome_that_is_empty_is_no_success() -> None:
    (load,) = read("outcome,output_tokens\nok,5\n,5\n").values()
    assert measure(load).error_classes == {"unknown": 1}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a,b\n1,2\n", None, "no column of a record"),
        ("prompt_tokens,outcome\n", None, "no records"),
        ("prompt_tokens,outcome\n1,ok\nmany,ok\n", 3, "prompt_tokens must be a finite number"),
        ('{"sent": 1e999}\n', 1, "sent must be a finite number"),
        ('{"sent": [1]}\n', 1, "sent must be a finite number"),
        ('{"sent": 1, "chunk_times": 5}\n', 1, "list of numbers"),
        ('{"sent": 1, "chunk_times": ["x"]}\n', 1, "list of numbers"),
        ('{"sent": 1}\n{"sent": 1, "chunk_times": {"a": 1}}\n', 2, "list of numbers"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(text: str, line: int | None, why: str) -> None:
    with pytest.raises(UserError, match=why) as caught:
        read(text)
    assert caught.value.line == line


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text("ab19 ", max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "sent",
        "end",
        "first_token",
        "prompt_tokens",
        "cached_tokens",
        "output_tokens",
        "error",
        "outcome",
        "finish_reason",
        "chunk_times",
        "answer_digest",
        "session",
        "turn",
        "run",
        "total_ms",
    ]
)


@given(st.lists(st.dictionaries(KEYS, JSON, max_size=6), min_size=1, max_size=4))
def test_any_rows_are_measured_or_a_user_error(batch: list[dict[str, object]]) -> None:
    lines = [json.dumps(row).encode() + b"\n" for row in batch]
    try:
        loads = read_loads(lines, Path("f"))
    except UserError:
        return
    assert sum(map(len, loads.values())) == len(batch)
    for load in loads.values():
        measure(load)

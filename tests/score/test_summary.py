from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tuner.load.record import ErrorClass, Record
from tuner.score.profile import UNGATED
from tuner.score.rank import Tier
from tuner.score.summary import summarise
from tuner.score.table import number, table

Make = Callable[..., Record]


def test_a_summary_of_nothing_is_json_and_text() -> None:
    found = summarise([])
    assert json.loads(json.dumps(found.as_json(), allow_nan=False))["standing"] == "incomplete"
    assert "0 requests planned" in table(found)
    assert (found.shares, found.wall_time, found.gains) == (None, None, None)


def test_a_whole_load(make_record: Make) -> None:
    records = [
        make_record(i, session=i, answer_digest=f"{i + 1:x}".ljust(64, "f")) for i in range(20)
    ]
    found = summarise(records, UNGATED)
    assert found.standing.tier is Tier.FEASIBLE
    assert found.standing.score == found.standing.figures["weighted"]
    assert set(found.missing) == {"goodput_rps", "goodput_share", "repetition_rate"}
    text = table(found)
    assert "no gates" in text
    assert "10 % more would change the score by: prefill speed +" in text
    json.dumps(found.as_json(), allow_nan=False)


def test_failed_gates_are_named_in_the_text(make_record: Make) -> None:
    text = table(summarise([make_record(i) for i in range(3)]))
    assert "which does not count: cache_hit_rate, output_tps_p10" in text


def test_all_failed_reads_well(make_failure: Make) -> None:
    text = table(summarise([make_failure(ErrorClass.CONNECT, at=i, seconds=1) for i in range(3)]))
    assert "failed: connect 3" in text
    assert "no request succeeded" in text
    assert "nan" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0.000"),
        (0.98765, "0.988"),
        (12.345, "12.35"),
        (234.56, "234.6"),
        (26028.006, "26,028"),
        (0.00012, "0.00012"),
    ],
)
def test_numbers_for_people(value: float | None, text: str) -> None:
    assert number(value) == text

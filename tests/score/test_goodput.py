from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.load.record import ErrorClass, Record
from tuner.score.columns import from_records
from tuner.score.figures import figures
from tuner.score.goodput import Limits, within
from tuner.score.measure import measure

Make = Callable[..., Record]


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        (Limits(ttft_s=1.0), [True, False, True]),
        (Limits(tpot_s=0.1001), [True, True, False]),
        (Limits(e2e_s=2.1), [True, False, False]),
        (Limits(output_tps=4.0), [True, False, False]),
        (Limits(ttft_s=5.0, tpot_s=0.3), [True, True, True]),
    ],
)
def test_each_limit(limits: Limits, kept: list[bool], make_record: Make) -> None:
    records = [
        make_record(ttft=1.0, step=0.1),
        make_record(ttft=3.0, step=0.1),
        make_record(ttft=1.0, step=0.2),
    ]
    assert within(from_records(records), limits).tolist() == kept


def test_goodput_counts_the_whole_population(make_record: Make, make_failure: Make) -> None:
    records = [
        make_record(0.0, ttft=1.0),
        make_record(0.0, ttft=3.0),
        make_failure(ErrorClass.HTTP_5XX),
        make_record(0.0, first_token=-1.0),
    ]
    found = measure(records, wall_s=8.0, planned=10, limits=Limits(ttft_s=2.0))
    assert found.goodput is not None
    assert (found.goodput.count, found.goodput.share, found.goodput.rps) == (1, 0.1, 0.125)
    assert figures(found)["goodput_rps"] == 0.125


def test_an_answer_of_one_token_keeps_a_limit_on_tpot(make_record: Make) -> None:
    assert within(from_records([make_record(output=1)]), Limits(tpot_s=0.001)).all()


def test_no_limits_no_goodput(make_record: Make) -> None:
    found = measure([make_record()])
    assert (found.goodput, found.goodput_rps) == (None, None)
    assert found.unmeasured["goodput_rps"] == "no limits were given"


@given(st.floats(0.1, 5), st.floats(0.1, 5))
def test_stricter_limits_keep_fewer(one: float, other: float) -> None:
    records = [
        Record("w", 0, 0, 0.0, 0.0, first_token=t, end=t + 1, output_tokens=2)
        for t in (0.2, 0.5, 1.0, 2.0, 4.0)
    ]
    table = from_records(records)
    low, high = sorted((one, other))
    strict, loose = (within(table, Limits(ttft_s=x)) for x in (low, high))
    assert not (strict & ~loose).any()


@pytest.mark.parametrize("wrong", [{}, {"ttft_s": 0.0}, {"e2e_s": -1.0}, {"tpot_s": float("nan")}])
def test_impossible_limits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="limits"):
        Limits(**wrong)

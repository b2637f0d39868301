from __future__ import annotations

from pathlib import Path

import pytest

from tests.load.conftest import Mock
from tuner.errors import UserError
from tuner.load.find import find_load
from tuner.load.rate import RateSearch
from tuner.load.run import LoadResult
from tuner.spec.workload import Conversations

TALKS = Conversations(
    kind="conversations",
    conversations=6,
    turns=1,
    concurrency=1,
    system_tokens=100,
    turn_tokens=30,
    output_tokens=4,
)


def test_the_highest_concurrency_that_holds_is_found(mock: Mock) -> None:
    seen: list[tuple[str, str]] = []

    def margin(result: LoadResult) -> float:
        seen.append((result.workload, result.salt))
        assert all(record.ok for record in result.records)
        return 0.5 if int(result.workload.rpartition("-c")[2]) <= 4 else -0.5

    search = RateSearch(1, 6, whole=True)
    found = find_load(("t", TALKS), mock.endpoint, search, margin, name="n", folder=Path())
    assert (found.level, found.missed) == (4, 5)
    assert [name for name, _ in seen] == ["t-c1", "t-c2", "t-c4", "t-c6", "t-c5"]
    assert [salt for _, salt in seen] == [f"n-{turn}" for turn in range(5)]


def test_a_level_near_the_limit_is_measured_again_with_questions_of_its_own(mock: Mock) -> None:
    margins = iter([0.03, 0.2, -0.9])
    search = RateSearch(100, 200, tolerance=2)
    found = find_load(
        ("t", TALKS), mock.endpoint, search, lambda _: next(margins), name="n", folder=Path()
    )
    assert (found.level, found.missed, found.measurements) == (100, 200, 3)
    bodies = [one["body_sha"] for one in mock.requests()]
    assert len(bodies) == len(set(bodies)) == 3 * 6 + 1


def test_more_at_once_than_there_are_conversations_is_refused(mock: Mock) -> None:
    with pytest.raises(UserError, match="there are 6"):
        find_load(
            ("t", TALKS),
            mock.endpoint,
            RateSearch(1, 7, whole=True),
            lambda _: 1.0,
            name="n",
            folder=Path(),
        )
    assert mock.requests() == []

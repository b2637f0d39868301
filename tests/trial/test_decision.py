from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.trial.factory import trial
from tuner.score.paired import Arm, Run, compare
from tuner.store.rows import Origin, TrialRow
from tuner.trial.decision import confirmation, decide, standings

A, B = Arm.BASELINE, Arm.CANDIDATE


def study(*rounds: Sequence[float | None], other: int = 5) -> list[TrialRow]:
    """A study whose finalist was repeated in rounds of A-B-B-A with these scores."""
    rows = [trial(0, origin=Origin.BASELINE, score=100.0), trial(other, score=200.0)]
    for turn, scores in enumerate(rounds):
        for place, score in enumerate(scores):
            of = 0 if place in {0, 3} else other
            block = 2 * turn + (place > 1)
            rows.append(
                trial(
                    10 + 4 * turn + place,
                    origin=Origin.REPEAT,
                    repeats=of,
                    block=block,
                    score=score,
                )
            )
    return rows


def test_the_interval_is_that_of_the_paired_comparison() -> None:
    found = decide(study([100, 150, 151, 104], [98, 149, 160, 99]), [5], rounds=2)
    runs = [
        Run(a, v)
        for a, v in zip((A, B, B, A) * 2, (100, 150, 151, 104, 98, 149, 160, 99), strict=True)
    ]
    expected = compare(runs, confidence=confirmation(1, 2).confidence)
    assert found.standings[0].decision.comparison == expected
    assert (found.winner, found.clear) == (5, True)
    assert found.best is found.standings[0]


def test_what_the_search_measured_does_not_count() -> None:
    found = decide(study([100, 100.5, 99, 101], [101, 100, 100.2, 99]), [5], rounds=2)
    assert (found.winner, found.clear) == (
        0,
        False,
    )  # though the search had it at twice the baseline


@pytest.mark.parametrize(
    "rounds",
    [[], [[100.0, 200.0, 201.0]], [[None, 200.0, 201.0, 100.0]], [[100.0, 200.0, 201.0, 100.0]]],
)
def test_before_the_first_look_nothing_is_decided(rounds: list[list[float | None]]) -> None:
    found = decide(study(*rounds), [5], rounds=3)
    assert (found.winner, found.clear) == (0, False)
    assert found.standings[0].open


def test_a_finalist_that_fails_a_repeat_cannot_win() -> None:
    rows = study([100, 200, 201, 100], [100, 200, 201, 100])
    crashed = trial(
        30, origin=Origin.REPEAT, repeats=5, block=4, verdict="engine_crash", feasible=False
    )
    found = decide([*rows, crashed], [5], rounds=3)
    assert (found.winner, found.clear) == (0, False)
    assert found.standings[0].broken == "trial 30: engine_crash"
    assert not found.standings[0].open


def test_the_surely_better_of_two_finalists_wins_and_rounds_end_when_all_is_clear() -> None:
    rows = study([100, 150, 151, 100], [100, 149, 150, 101])
    more = study([100, 120, 121, 100], [100, 119, 120, 101], other=6)
    both = [*rows, *(t for t in more if 6 in {t.number, t.repeats})]
    found = decide(both, [5, 6], rounds=4)
    assert found.winner == 5
    assert not any(s.open for s in standings(both, [5, 6], rounds=4))


def test_without_finalists_the_baseline_stands() -> None:
    found = decide([trial(3, origin=Origin.BASELINE)], [], rounds=2)
    assert (found.baseline, found.winner, found.clear, found.standings) == (3, 3, False, ())
    assert found.best is None
    assert found.as_json()["comparisons"] == []


def test_a_round_whose_baseline_failed_counts_for_nothing_and_later_ones_count() -> None:
    good, lost = [100.0, 150.0, 151.0, 101.0], [None, 150.0, 151.0, 100.0]
    found = decide(study(good, lost, good), [5], rounds=4).standings[0]
    assert len(found.runs) == 8
    assert found.better


def test_the_first_answer_stands_whatever_is_measured_later() -> None:
    clear, against = [100.0, 150.0, 151.0, 101.0], [150.0, 100.0, 99.0, 151.0]
    first = decide(study(clear, clear), [5], rounds=6)
    later = decide(study(clear, clear, against, against), [5], rounds=6)
    assert (first.winner, later.winner) == (5, 5)
    assert first.standings[0].decision == later.standings[0].decision


def test_between_two_looks_the_last_one_is_shown() -> None:
    close = [100.0, 103.0, 101.0, 102.0]
    rounds = [close] * 6 + [[99.0, 101.0, 103.0, 100.0]]
    looked, later = (decide(study(*rounds[:n]), [5], rounds=20).standings[0] for n in (6, 7))
    assert looked.open
    assert later.decision == looked.decision
    assert len(later.runs) == 28


@pytest.mark.parametrize(
    ("rounds", "looks"),
    [
        (1, (1,)),
        (2, (2,)),
        (3, (2, 3)),
        (6, (2, 3, 4, 5, 6)),
        (7, (2, 3, 4, 5, 6, 7)),
        (50, (2, 3, 4, 5, 6, 9, 13, 19, 28, 42, 50)),
    ],
)
def test_each_round_is_looked_at_and_many_ever_more_seldom(
    rounds: int, looks: tuple[int, ...]
) -> None:
    assert confirmation(2, rounds).looks == looks

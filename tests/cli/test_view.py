"""How long a study still takes, as its panel says."""

from __future__ import annotations

from typing import Any

from tuner.cli.view import StudyView
from tuner.trial.events import Happening


def view() -> StudyView:
    found = StudyView("one", budget={"trials": 4, "repeats": 8.0})
    found.spent = {"typical": 10.0, "trials": 4, "engine": 40.0, "wall": 40.0}
    return found


def repeat(seen: StudyView, number: int) -> float | None:
    data: dict[str, Any] = {"origin": "repeat", "params": {}}
    seen.hear(Happening("plan", number, data, 0.0))
    told = {"verdict": "healthy", "score": 1.0, "feasible": True}
    seen.hear(Happening("told", number, told, 0.0))
    return seen.seconds_left


def test_the_time_left_falls_to_nothing_with_the_last_planned_start() -> None:
    seen = view()
    assert seen.seconds_left == 80.0
    seen.hear(Happening("finalists", None, {"starts": 3, "numbers": [1], "rounds": 2}, 0.0))
    assert [repeat(seen, n) for n in (5, 6, 7)] == [20.0, 10.0, 0.0]


def test_a_round_more_counts_again() -> None:
    seen = view()
    seen.hear(Happening("finalists", None, {"starts": 2, "numbers": [1], "rounds": 2}, 0.0))
    assert [repeat(seen, n) for n in (5, 6, 7, 8)] == [10.0, 0.0, 10.0, 0.0]

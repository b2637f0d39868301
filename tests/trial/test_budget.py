from __future__ import annotations

from dataclasses import replace

import pytest

from tests.trial.factory import trial
from tuner.store.rows import Origin, Transition
from tuner.store.stages import Stage
from tuner.trial.budget import Spending, durations, engine_seconds, stage_seconds


def steps(
    *pairs: tuple[Stage, float], boot: str = "b", attempt: int = 1, number: int = 0
) -> list[Transition]:
    return [
        Transition(number, attempt, stage, at=0.0, clock=clock, boot=boot, detail={})
        for stage, clock in pairs
    ]


WHOLE = steps(
    (Stage.PLANNED, 0.0),
    (Stage.STARTING, 10.0),
    (Stage.READY, 34.0),
    (Stage.MEASURED, 50.0),
    (Stage.STOPPING, 50.5),
    (Stage.VERIFIED, 52.0),
    (Stage.TOLD, 60.0),
)


def test_the_engine_counts_from_its_start_to_the_proof_that_it_is_gone() -> None:
    assert engine_seconds(WHOLE) == pytest.approx(42.0)


def test_a_reboot_costs_nothing_and_a_clock_that_runs_back_neither() -> None:
    before = steps((Stage.STARTING, 1000.0), boot="old")
    after = steps((Stage.STOPPING, 5.0), (Stage.VERIFIED, 6.0), boot="new")
    assert engine_seconds(before + after) == pytest.approx(1.0)
    assert engine_seconds(steps((Stage.STARTING, 10.0), (Stage.READY, 3.0))) == 0.0


def test_the_time_between_a_kill_and_the_next_tuner_is_nobodys() -> None:
    killed = steps((Stage.STARTING, 0.0), (Stage.READY, 20.0))
    found = [
        replace(step, detail={"by": "recovery"})
        for step in steps((Stage.STOPPING, 30000.0), (Stage.VERIFIED, 30000.1))
    ]
    assert engine_seconds(killed + found) == pytest.approx(20.0)


def test_stage_times_are_those_of_the_last_attempt() -> None:
    first = steps((Stage.STARTING, 0.0), (Stage.STOPPING, 100.0), attempt=1)
    second = steps((Stage.STARTING, 200.0), (Stage.READY, 224.0), attempt=2)
    assert stage_seconds(first + second) == {Stage.READY: pytest.approx(24.0)}


def test_every_trial_that_started_has_its_seconds() -> None:
    rows = [trial(0), trial(1, attempt=0), trial(2, origin=Origin.REPEAT)]
    more = steps((Stage.STARTING, 0.0), (Stage.VERIFIED, 30.0), number=2)
    found = durations(rows, [*WHOLE, *more])
    assert found == {0: pytest.approx(42.0), 2: pytest.approx(30.0)}
    assert Spending(2, 0.0, 0.0, found).typical() == pytest.approx(36.0)
    assert Spending(0, 0.0, 0.0, {}).typical(default=7.0) == 7.0


@pytest.mark.parametrize(
    ("limits", "trials", "times", "at"),
    [
        ({"trials": 5.0, "wall": 150.0, "engine": 120.0}, 1, 1, ()),
        ({"trials": 5.0, "wall": 150.0, "engine": 120.0}, 2, 1, ("trials",)),
        ({"trials": 5.0, "wall": 150.0, "engine": 120.0}, 1, 2, ("engine",)),
        ({"trials": 40.0, "wall": 120.0}, 1, 1, ("wall",)),
        ({"trials": 4.0, "wall": 120.0, "engine": 99.0}, 1, 1, ("trials", "wall", "engine")),
        ({}, 100, 100, ()),
    ],
)
def test_each_limit_that_is_in_the_way_is_known(
    limits: dict[str, float], trials: int, times: int, at: tuple[str, ...]
) -> None:
    now = Spending(trials=4, engine=100.0, wall=110.0, durations={0: 10.0, 1: 20.0, 2: 90.0})
    assert now.obstacles(limits, trials, times) == at


def test_the_limits_that_ended_a_search_are_said() -> None:
    now = Spending(trials=4, engine=100.0, wall=110.0, durations={0: 20.0})
    limits = {"trials": 4.0, "wall": 120.0, "engine": 110.0}
    assert now.words(limits, ("trials",)) == "the search ended at its limit of trials: 4 of 4"
    assert now.words(limits, ("trials", "wall", "engine")) == (
        "the search ended at its limit of trials: 4 of 4; "
        "and at its wall time: 1 m 50 s of 2 m 00 s, and one more trial takes about 20.0 s; "
        "and at its engine time: 1 m 40 s of 1 m 50 s, and one more trial takes about 20.0 s"
    )

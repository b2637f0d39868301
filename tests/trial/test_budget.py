from __future__ import annotations

from dataclasses import replace

import pytest

from tests.trial.factory import trial
from tuner.store.rows import Origin, Transition
from tuner.store.stages import Stage
from tuner.trial.budget import engine_seconds, spent, stage_seconds


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


def test_repeats_and_rejected_points_are_no_trials_of_the_budget() -> None:
    rows = [trial(0), trial(1, attempt=0), trial(2, origin=Origin.REPEAT)]
    found = spent(
        rows, [*WHOLE, *steps((Stage.STARTING, 0.0), (Stage.VERIFIED, 30.0), number=2)], session=5.0
    )
    assert found.trials == 1
    assert found.engine == pytest.approx(72.0)
    assert found.wall == pytest.approx(72.0)
    assert found.typical() == pytest.approx(36.0)
    assert spent([], [], session=5.0).typical(default=7.0) == 7.0

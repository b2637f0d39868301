from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trial.factory import trial
from tuner.store.rows import Origin, Transition, TrialRow
from tuner.store.stages import Stage
from tuner.trial.retry import (
    CANCELLED,
    INTERRUPTED,
    MAX_ATTEMPTS,
    MAX_CLEANUPS,
    MAX_INTERRUPTIONS,
    MAX_STOPS,
)
from tuner.trial.retry import again as _again
from tuner.trial.retry import stops as _stops
from tuner.trial.retry import teaches as _teaches
from tuner.trial.retry import unfinished as _unfinished

CRASH, HANG, RESIDUE, PORT = "engine_crash", "run_hang", "residue", "port_taken"
DISK, SICK = "host_trouble", "sick_device"
RETRY = {
    RESIDUE: "after_cleanup",
    PORT: "after_cleanup",
    DISK: "confirm_then_stop",
    SICK: "stop_study",
    CANCELLED: "none",
    INTERRUPTED: "none",
}


def steps(*was: str, stopped: int = 0) -> list[Transition]:
    """The plans of a trial whose earlier attempts ended so; the first of them stopped the study."""
    first = Transition(0, 0, Stage.PLANNED, at=0.0, clock=0.0, boot="b", detail={})
    details: list[dict[str, Any]] = [
        {"was": verdict, "retry": RETRY.get(verdict, "confirm_once")} for verdict in was
    ]
    for detail in details[:stopped]:
        detail |= {"stopped": True}
    return [
        first,
        *(
            Transition(0, n, Stage.PLANNED, at=0.0, clock=0.0, boot="b", detail=detail)
            for n, detail in enumerate(details, 1)
        ),
    ]


def ended(verdict: str, retry: str, *was: str, **fields: Any) -> TrialRow:
    judgement = {"retry": retry, "teaches": True}
    return trial(0, attempt=len(was) + 1, verdict=verdict, judgement=judgement, **fields)


def again(verdict: str, retry: str, *was: str) -> bool:
    return _again(ended(verdict, retry, *was), steps(*was))


def teaches(verdict: str, retry: str, *was: str) -> bool:
    return _teaches(ended(verdict, retry, *was), steps(*was))


def stops(verdict: str, *was: str) -> bool:
    return _stops(ended(verdict, RETRY[verdict], *was), steps(*was))


def unfinished(verdict: str, *was: str) -> bool:
    return _unfinished(ended(verdict, "none", *was), steps(*was))


def test_what_may_be_chance_is_tried_until_it_happened_twice() -> None:
    assert again(CRASH, "confirm_once")
    assert again(HANG, "confirm_once", CRASH)
    assert not again(CRASH, "confirm_once", CRASH)
    assert not again("device_oom_load", "none")


def test_what_may_be_chance_teaches_only_when_the_same_has_happened_before() -> None:
    assert not teaches(CRASH, "confirm_once")
    assert not teaches(CRASH, "confirm_once", RESIDUE, PORT)
    assert not teaches(CRASH, "confirm_once", HANG, "worker_crash")
    assert teaches(CRASH, "confirm_once", CRASH)
    assert teaches(CRASH, "confirm_once", CRASH, HANG)
    assert teaches("device_oom_load", "none")


def test_a_judgement_that_does_not_teach_never_does() -> None:
    silent = trial(0, verdict="unknown", judgement={"retry": "confirm_once", "teaches": False})
    assert not _teaches(silent, steps("unknown"))
    assert not _teaches(trial(0, verdict=CRASH, judgement=None), steps(CRASH))


def test_what_was_cleaned_away_takes_no_confirmation_from_what_comes_then() -> None:
    assert again(CRASH, "confirm_once", RESIDUE, PORT)
    assert not again(CRASH, "confirm_once", RESIDUE, PORT, CRASH)
    assert again(RESIDUE, "after_cleanup", CRASH, HANG)


def test_what_stands_in_the_way_is_cleaned_a_bounded_number_of_times() -> None:
    assert again(RESIDUE, "after_cleanup", *[PORT] * (MAX_CLEANUPS - 1))
    assert not again(RESIDUE, "after_cleanup", *[PORT] * MAX_CLEANUPS)


def test_what_never_ends_alike_is_tried_a_bounded_number_of_times_and_teaches_nothing() -> None:
    was = [f"verdict_{n}" for n in range(MAX_ATTEMPTS)]
    assert again("last", "confirm_once", *was[: MAX_ATTEMPTS - 2])
    assert not again("last", "confirm_once", *was[: MAX_ATTEMPTS - 1])
    assert not teaches("last", "confirm_once", *was[: MAX_ATTEMPTS - 1])


@given(was=st.lists(st.sampled_from([CRASH, HANG, RESIDUE, PORT, DISK]), max_size=8))
def test_nothing_is_tried_without_end_and_nothing_teaches_that_is_tried_again(
    was: list[str],
) -> None:
    tried: list[str] = []
    for verdict in was:
        retry = RETRY.get(verdict, "confirm_once")
        more = again(verdict, retry, *tried)
        assert not (more and teaches(verdict, retry, *tried) and retry == "confirm_once")
        tried.append(verdict)
        if not more:
            break
    assert len(tried) <= MAX_ATTEMPTS


@pytest.mark.parametrize("by", [CANCELLED, INTERRUPTED])
def test_attempts_that_were_broken_off_do_not_count(by: str) -> None:
    broken_off = [by] * MAX_ATTEMPTS
    assert again(CRASH, "confirm_once", *broken_off)
    assert again(RESIDUE, "after_cleanup", *broken_off)
    assert not again(CRASH, "confirm_once", *broken_off, CRASH)
    assert not again(RESIDUE, "after_cleanup", PORT, *broken_off, PORT)


def test_what_ends_every_trial_stops_the_study_once_it_is_known_to_be_no_chance() -> None:
    assert stops(SICK)
    assert not stops(DISK)  # tried once more first
    assert again(DISK, RETRY[DISK])
    assert stops(DISK, DISK)
    assert not again(DISK, RETRY[DISK], DISK)
    assert not _stops(ended(CRASH, "confirm_once", CRASH), steps(CRASH))


def test_a_point_that_stopped_the_study_runs_again_and_is_passed_over_in_the_end() -> None:
    sick = ended(SICK, RETRY[SICK])
    assert _unfinished(sick, steps())
    assert _unfinished(sick, steps(*[SICK] * (MAX_STOPS - 2), stopped=MAX_STOPS - 2))
    often = steps(*[SICK] * (MAX_STOPS - 1), stopped=MAX_STOPS - 1)
    assert not _unfinished(sick, often)
    assert _unfinished(ended(SICK, RETRY[SICK], origin=Origin.BASELINE), often)


def test_a_user_may_stop_a_trial_as_often_as_he_likes() -> None:
    assert unfinished(CANCELLED, *[CANCELLED] * MAX_INTERRUPTIONS)
    assert unfinished(INTERRUPTED, *[CANCELLED] * MAX_INTERRUPTIONS)
    assert not unfinished(CRASH)


def test_a_trial_that_kills_the_tuner_is_given_up() -> None:
    assert unfinished(INTERRUPTED, *[INTERRUPTED] * (MAX_INTERRUPTIONS - 2))
    assert not unfinished(INTERRUPTED, *[INTERRUPTED] * (MAX_INTERRUPTIONS - 1))

from __future__ import annotations

import pytest

from tests.trial.factory import trial
from tuner.store.rows import Transition, TrialRow
from tuner.store.stages import Stage
from tuner.trial.retry import CANCELLED, INTERRUPTED, MAX_ATTEMPTS, MAX_INTERRUPTIONS
from tuner.trial.retry import again as _again
from tuner.trial.retry import unfinished as _unfinished

CRASH, HANG = "engine_crash", "run_hang"


def steps(*was: str) -> list[Transition]:
    """The plans of a trial whose earlier attempts ended so."""
    first = Transition(0, 0, Stage.PLANNED, at=0.0, clock=0.0, boot="b", detail={})
    return [
        first,
        *(
            Transition(0, n, Stage.PLANNED, at=0.0, clock=0.0, boot="b", detail={"was": verdict})
            for n, verdict in enumerate(was, 1)
        ),
    ]


def ended(verdict: str, retry: str, *was: str) -> TrialRow:
    return trial(0, attempt=len(was) + 1, verdict=verdict, judgement={"retry": retry})


def again(verdict: str, retry: str, *was: str) -> bool:
    return _again(ended(verdict, retry, *was), steps(*was))


def unfinished(verdict: str, *was: str) -> bool:
    return _unfinished(ended(verdict, "none", *was), steps(*was))


def test_what_may_be_chance_is_tried_until_it_happened_twice() -> None:
    assert again(CRASH, "confirm_once")
    assert again(HANG, "confirm_once", CRASH)
    assert not again(CRASH, "confirm_once", CRASH)
    assert not again("device_oom_load", "none")


@pytest.mark.parametrize("retry", ["confirm_once", "after_cleanup"])
def test_what_never_ends_alike_is_tried_a_bounded_number_of_times(retry: str) -> None:
    was = [f"verdict_{n}" for n in range(MAX_ATTEMPTS)]
    assert again("last", retry, *was[: MAX_ATTEMPTS - 2])
    assert not again("last", retry, *was[: MAX_ATTEMPTS - 1])


@pytest.mark.parametrize("by", [CANCELLED, INTERRUPTED])
def test_attempts_that_were_broken_off_do_not_count(by: str) -> None:
    broken_off = [by] * MAX_ATTEMPTS
    assert again(CRASH, "confirm_once", *broken_off)
    assert again("residue", "after_cleanup", *broken_off)
    assert not again(CRASH, "confirm_once", *broken_off, CRASH)
    assert not again(CRASH, "after_cleanup", HANG, *broken_off, HANG)


def test_a_user_may_stop_a_trial_as_often_as_he_likes() -> None:
    assert unfinished(CANCELLED, *[CANCELLED] * MAX_INTERRUPTIONS)
    assert unfinished(INTERRUPTED, *[CANCELLED] * MAX_INTERRUPTIONS)
    assert not unfinished(CRASH)


def test_a_trial_that_kills_the_tuner_is_given_up() -> None:
    assert unfinished(INTERRUPTED, *[INTERRUPTED] * (MAX_INTERRUPTIONS - 2))
    assert not unfinished(INTERRUPTED, *[INTERRUPTED] * (MAX_INTERRUPTIONS - 1))

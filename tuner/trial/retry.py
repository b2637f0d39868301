"""Whether a trial is started again, by what ended it and what ended it before.

The rule looks at the ledger alone, so that a tuner that was killed right after a verdict decides
as the one that gave it would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.store.rows import Origin, Transition, TrialRow
from tuner.store.stages import Stage
from tuner.verdict import Retry

MAX_CLEANUPS = 2
"""Most further starts for one trial after something that stood in the way was cleaned."""
MAX_ATTEMPTS = 5
"""Most starts for one trial because of what ended it; those that were broken off do not count."""
MAX_STOPS = 2
"""Most stops of a study by one point: if a person could not mend it, it may be the point's own fault."""
MAX_INTERRUPTIONS = 5
"""Most ends of the tuner in one trial that nobody asked for: some trial might kill it."""

INTERRUPTED = "interrupted"
CANCELLED = "cancelled"
STOPPED = "stopped"
"""In the detail of a plan: the trial had stopped the study before."""
INTERRUPTION: dict[str, Any] = {
    "verdict": INTERRUPTED,
    "title": "the tuner ended while the trial ran",
    "evidence": [],
    "advice": "nothing to do: it is run again when the study is resumed",
    "teaches": False,
    "retry": "none",
    "violation": None,
    "failed": True,
}
"""The judgement of a trial whose tuner was killed, or failed itself."""


def again(trial: TrialRow, steps: Sequence[Transition]) -> bool:
    """Whether a verified trial is to be started once more.

    What stood in the way and was cleaned is tried again, a bounded number of times. What may have
    been chance is tried until it has happened twice: only then does it teach, or stop the study.

    Args:
        trial: The trial, with its verdict.
        steps: Its transitions, in order.
    """
    earlier = _endings(steps)
    if trial.judgement is None or len(earlier) + 1 >= MAX_ATTEMPTS:
        return False
    match trial.judgement.get("retry"):
        case Retry.AFTER_CLEANUP:
            return sum(retry == Retry.AFTER_CLEANUP for _, retry in earlier) < MAX_CLEANUPS
        case Retry.CONFIRM_ONCE | Retry.CONFIRM_THEN_STOP:
            return trial.verdict not in {verdict for verdict, _ in earlier}
        case _:
            return False


def teaches(trial: TrialRow, steps: Sequence[Transition]) -> bool:
    """Whether the sampler may learn from how a trial failed.

    What may have been chance teaches nothing until the same has ended the trial before.

    Args:
        trial: The trial, with its verdict.
        steps: Its transitions, in order.
    """
    judgement = trial.judgement or {}
    if not judgement.get("teaches"):
        return False
    chance = judgement.get("retry") == Retry.CONFIRM_ONCE
    return not chance or trial.verdict in {verdict for verdict, _ in _endings(steps)}


def stops(trial: TrialRow, steps: Sequence[Transition]) -> bool:
    """Whether what ended a trial would end every other too, until a person has mended it.

    Args:
        trial: The trial, with its verdict.
        steps: Its transitions, in order.
    """
    retry = (trial.judgement or {}).get("retry")
    return retry in {Retry.STOP_STUDY, Retry.CONFIRM_THEN_STOP} and not again(trial, steps)


def unfinished(trial: TrialRow, steps: Sequence[Transition]) -> bool:
    """Whether a verified trial ended through no fault of its point, and may run again.

    The tuner was ended, or somebody had to mend something first and has had the time to. A point
    that stops the study each time is passed over in the end, but the baseline never is.

    Args:
        trial: The trial, with its verdict.
        steps: Its transitions, in order.
    """
    if stops(trial, steps):
        before = sum(STOPPED in step.detail for step in steps)
        return trial.origin is Origin.BASELINE or before + 1 < MAX_STOPS
    if trial.verdict == INTERRUPTED:
        return earlier_verdicts(steps).count(INTERRUPTED) + 1 < MAX_INTERRUPTIONS
    return trial.verdict == CANCELLED


def earlier_verdicts(steps: Sequence[Transition]) -> tuple[str, ...]:
    """What ended a trial's attempts before the last one, in order."""
    return tuple(
        step.detail["was"]
        for step in steps
        if step.stage is Stage.PLANNED and step.detail.get("was") is not None
    )


def _endings(steps: Sequence[Transition]) -> list[tuple[str, str | None]]:
    """The verdict of each attempt before the last that was not broken off, and what it called for."""
    return [
        (step.detail["was"], step.detail.get("retry"))
        for step in steps
        if step.stage is Stage.PLANNED
        and step.detail.get("was") not in {None, CANCELLED, INTERRUPTED}
    ]


def measured(trial: TrialRow, steps: Sequence[Transition]) -> bool:
    """Whether the last attempt of a trial was measured to the end."""
    return trial.metrics is not None and any(
        step.stage is Stage.MEASURED and step.attempt == trial.attempt for step in steps
    )

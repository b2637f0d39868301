"""Whether a trial is started again, by what ended it and what ended it before.

The rule looks at the ledger alone, so that a tuner that was killed right after a verdict decides
as the one that gave it would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.store.rows import Transition, TrialRow
from tuner.store.stages import Stage
from tuner.verdict import Retry

MAX_ATTEMPTS = 3
"""Most starts for one trial because of what ended it; those that were broken off do not count."""
MAX_INTERRUPTIONS = 5
"""Most ends of the tuner in one trial that nobody asked for: some trial might kill it."""

INTERRUPTED = "interrupted"
CANCELLED = "cancelled"
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
    been chance is tried until it has happened twice: only then does it teach.

    Args:
        trial: The trial, with its verdict.
        steps: Its transitions, in order.
    """
    earlier = [v for v in earlier_verdicts(steps) if v not in {CANCELLED, INTERRUPTED}]
    if trial.judgement is None or len(earlier) + 1 >= MAX_ATTEMPTS:
        return False
    match trial.judgement.get("retry"):
        case Retry.AFTER_CLEANUP:
            return True
        case Retry.CONFIRM_ONCE:
            return trial.verdict not in earlier
        case _:
            return False


def unfinished(trial: TrialRow, steps: Sequence[Transition]) -> bool:
    """Whether a verified trial ended for want of the tuner, and not by itself, and may run again.

    Args:
        trial: The trial, with its verdict.
        steps: Its transitions, in order.
    """
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


def measured(trial: TrialRow, steps: Sequence[Transition]) -> bool:
    """Whether the last attempt of a trial was measured to the end."""
    return trial.metrics is not None and any(
        step.stage is Stage.MEASURED and step.attempt == trial.attempt for step in steps
    )

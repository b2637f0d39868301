"""Families of verdicts: what tables and pictures tell apart at a glance."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from tuner.verdict.kinds import Verdict


class Family(enum.StrEnum):
    """What kind of end a trial came to."""

    GOOD = "good"
    MISSED = "missed"
    MEMORY = "memory"
    REFUSED = "refused"
    CRASHED = "crashed"
    WRONG = "wrong"
    WORSE = "worse"
    OUTSIDE = "outside"
    OPEN = "open"

    @property
    def label(self) -> str:
        """What people call it."""
        return _LABELS[self]


_LABELS: Final[Mapping[Family, str]] = {
    Family.GOOD: "passed",
    Family.MISSED: "missed a gate",
    Family.MEMORY: "out of memory",
    Family.REFUSED: "refused",
    Family.CRASHED: "crash or hang",
    Family.WRONG: "wrong answers or configuration",
    Family.WORSE: "ended early: worse than others",
    Family.OUTSIDE: "not its doing",
    Family.OPEN: "not over",
}

_FAMILIES: Final[Mapping[Verdict, Family]] = {
    Verdict.DEVICE_OOM_LOAD: Family.MEMORY,
    Verdict.DEVICE_OOM_PROFILING: Family.MEMORY,
    Verdict.DEVICE_OOM_CAPTURE: Family.MEMORY,
    Verdict.DEVICE_OOM_RUN: Family.MEMORY,
    Verdict.KV_SEQUENCE: Family.MEMORY,
    Verdict.KV_SPACE: Family.MEMORY,
    Verdict.HOST_OOM: Family.MEMORY,
    Verdict.FLAGS_REJECTED: Family.REFUSED,
    Verdict.UNSUPPORTED: Family.REFUSED,
    Verdict.MISSING_BACKEND: Family.REFUSED,
    Verdict.MODEL_UNREADABLE: Family.REFUSED,
    Verdict.ENGINE_CRASH: Family.CRASHED,
    Verdict.WORKER_CRASH: Family.CRASHED,
    Verdict.DEAD_BEHIND_HEALTH: Family.CRASHED,
    Verdict.UNASKED_EXIT: Family.CRASHED,
    Verdict.START_HANG: Family.CRASHED,
    Verdict.RUN_HANG: Family.CRASHED,
    Verdict.COLLECTIVE_FAILED: Family.CRASHED,
    Verdict.NON_FINITE: Family.WRONG,
    Verdict.QUALITY_FAILED: Family.WRONG,
    Verdict.ANSWERS_DIFFER: Family.WRONG,
    Verdict.SILENT_FALLBACK: Family.WRONG,
    Verdict.CONFIG_DIFFERS: Family.WRONG,
    Verdict.HEALTHY: Family.GOOD,
    Verdict.STOPPED_CLEANLY: Family.GOOD,
}

_OTHERS: Final[Mapping[str, Family]] = {
    "rejected_by_rule": Family.REFUSED,  # no engine was started
    "clearly_worse": Family.WORSE,  # its engine was healthy
    "held_on_level": Family.WORSE,  # so was this one's
}
"""What the ledger keeps besides the verdicts over engines."""


def family(verdict: str | None, *, feasible: bool | None) -> Family:
    """The family of a trial's end.

    Args:
        verdict: The verdict as the ledger keeps it; None while the trial is not over.
        feasible: Whether it passed its gates; None where that was not asked.
    """
    if verdict is None:
        return Family.OPEN
    if verdict in _OTHERS:
        return _OTHERS[verdict]
    found = _FAMILIES.get(Verdict(verdict), Family.OUTSIDE) if verdict in _KNOWN else Family.OUTSIDE
    if found is Family.GOOD and feasible is False:
        return Family.MISSED
    return found


_KNOWN = frozenset(str(v) for v in Verdict)

"""Whether a trial is one to deploy, before its files are written."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.store.rows import TrialRow
from tuner.trial.summary import failed_gates

_SERVED = frozenset({"healthy", "held_on_level"})
"""Verdicts of trials whose engines served as they should."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a trial is not one to deploy.

    Attributes:
        said: The reason, in a sentence without its end.
        grave: Whether its engine never served as it should, so that its files are refused unless
            they are asked for all the same.
    """

    said: str
    grave: bool


def doubt_of(trial: TrialRow) -> Doubt | None:
    """Why a trial is not one to deploy; None for one that was measured in full and passed its gates."""
    number, verdict = trial.number, trial.verdict
    if verdict not in _SERVED:
        return Doubt(f"trial {number} never was healthy: {verdict or trial.stage}", grave=True)
    if trial.score is None:
        return Doubt(f"trial {number} was never measured on the real load: {verdict}", grave=False)
    if not trial.feasible:
        missed = ", ".join(failed_gates(trial)) or "its gates"
        return Doubt(f"trial {number} is {verdict}, and misses {missed}", grave=False)
    return None

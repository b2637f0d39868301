"""Studies and trials as JSON-ready data, for the command line and the daemon alike."""

from __future__ import annotations

from typing import Any

from tuner.store.ledger import Ledger
from tuner.store.rows import StudyRow, TrialRow


def study_summary(ledger: Ledger, row: StudyRow) -> dict[str, Any]:
    """A study in a few words."""
    trials = ledger.trials(row.id)
    scored = [t for t in trials if t.feasible and t.score is not None]
    best = max(scored, key=lambda t: t.score or 0.0, default=None)
    return {
        "study": row.name,
        "status": row.status,
        "reason": row.reason,
        "fingerprint": row.fingerprint,
        "created": row.created,
        "ended": row.ended,
        "trials": len(trials),
        "best": None if best is None else {"trial": best.number, "score": best.score},
    }


def failed_gates(trial: TrialRow) -> list[str]:
    """The figures whose gates a measured trial did not pass, in the order of the workloads."""
    workloads = (trial.metrics or {}).get("workloads", {})
    return [g["figure"] for w in workloads.values() for g in w["gates"] if not g["passed"]]


def trial_json(trial: TrialRow) -> dict[str, Any]:
    """All that the ledger's row of a trial says."""
    return {
        "trial": trial.number,
        "origin": str(trial.origin),
        "repeats": trial.repeats,
        "block": trial.block,
        "stage": str(trial.stage),
        "attempt": trial.attempt,
        "params": trial.params,
        "deployment": trial.deployment,
        "verdict": trial.verdict,
        "judgement": trial.judgement,
        "score": trial.score,
        "feasible": trial.feasible,
        "constraints": trial.constraints,
        "metrics": trial.metrics,
        "created": trial.created,
        "ended": trial.ended,
    }

"""Trials as JSON-ready data, for the command line and the daemon alike."""

from __future__ import annotations

from typing import Any

from tuner.spec.deployment import Deployment, engine_name
from tuner.store.overview import headline
from tuner.store.rows import StudyRow, TrialRow
from tuner.trial.command import server_command
from tuner.trial.starting import MODEL_INSIDE


def failed_gates(trial: TrialRow) -> list[str]:
    """The figures whose gates a measured trial did not pass, in the order of the workloads."""
    workloads = (trial.metrics or {}).get("workloads", {})
    return [g["figure"] for w in workloads.values() for g in w["gates"] if not g["passed"]]


def figures_beside(trial: TrialRow) -> dict[str, float | None]:
    """Output TPS and TTFT P90 of a measured trial, as they stand beside its score in tables."""
    workloads = (trial.metrics or {}).get("workloads", {}).values()
    names = ("output_tps", "ttft_p90_s")
    return headline([(w["weight"], *(w["figures"].get(name) for name in names)) for w in workloads])


def margins(trial: TrialRow) -> dict[str, float | None]:
    """How far a measured trial stays from each gate: the smallest share over its workloads."""
    found: dict[str, float | None] = {}
    for workload in (trial.metrics or {}).get("workloads", {}).values():
        for gate in workload["gates"]:
            known, margin = found.get(gate["figure"]), gate["margin"]
            values = [m for m in (known, margin) if m is not None]
            found[gate["figure"]] = min(values, default=None)
    return found


def command_of(row: StudyRow, trial: TrialRow) -> dict[str, Any]:
    """The whole command of a trial's server and the variables that its deployment sets.

    The command is None while the study's engines are not built. Secrets stand there by name.
    """
    deployment = trial.deployment
    name = engine_name(deployment.get("recipe", ""), deployment.get("image"))
    engine = row.facts.get("engines", {}).get(name)
    model = row.facts.get("models", {}).get(deployment.get("model"))
    if engine is None or model is None:
        return {"command": None, "env": dict(deployment.get("env", {}))}
    inside = model if engine["image"] is None else MODEL_INSIDE
    command = server_command(engine["server"], inside, Deployment.from_json(deployment))
    secrets = {name: f"${source}" for name, source in deployment.get("secrets", {}).items()}
    return {
        "command": list(command),
        "env": {**dict(engine["env"]), **deployment["env"], **secrets},
    }


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
        "level": (trial.judgement or {}).get("level"),
        "created": trial.created,
        "ended": trial.ended,
        "history": trial.history,
    }

"""The trials that no other trial beats in both objectives, and the one that the rule takes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.score.objective import Objective, mean_figures
from tuner.store.rows import ON_PURPOSE, TrialRow
from tuner.store.stages import Stage


def front_of(trials: Sequence[TrialRow], objective: Objective) -> dict[str, Any] | None:
    """The front of a study as JSON-ready data; None where it has no two objectives.

    Of each point its own trial counts, not its repeats: a complete population, every gate passed but
    the limit of the rule itself. What it says is the search's word, and no proof: the finalists'
    repeats decide.

    Args:
        trials: All trials of the study.
        objective: What they are ranked by.

    Returns:
        ``objectives``: both names; ``rule``: in words; ``trials``: the front, the best first
        objective first, each with its figures, its score and whether it keeps the rule's limit;
        ``chosen``: the trial that the rule takes of them, None where none keeps the limit.
    """
    pair = objective.pair
    if pair is None:
        return None
    counted = {str(t.number): t for t in trials if _counts(t, objective)}
    results = {number: _figures(trial, pair.figures) for number, trial in counted.items()}
    kept = [name for name in pair.front(results) if counted[name].feasible]
    chosen = max(kept, key=lambda name: counted[name].score or 0.0, default=None)
    return {
        "objectives": list(pair.figures),
        "rule": objective.words,
        "trials": [
            {
                "trial": counted[name].number,
                "figures": results[name],
                "score": counted[name].score,
                "kept": bool(counted[name].feasible),
            }
            for name in pair.front(results)
        ],
        "chosen": None if chosen is None else counted[chosen].number,
    }


def _figures(trial: TrialRow, names: Sequence[str]) -> dict[str, float | None]:
    loads: Mapping[str, Any] = (trial.metrics or {}).get("workloads", {})
    return mean_figures([(load["weight"], load["figures"]) for load in loads.values()], names)


def _counts(trial: TrialRow, objective: Objective) -> bool:
    """Whether a trial was measured and passed every gate, the rule's own limit left aside."""
    metrics = trial.metrics or {}
    usable = trial.stage is Stage.TOLD and trial.score is not None and trial.history is None
    if not usable or trial.origin in ON_PURPOSE or metrics.get("tier") == "incomplete":
        return False
    if trial.feasible:
        return True
    if (trial.judgement or {}).get("failed") or metrics.get("memory_floor"):
        return False
    rule = objective.gate
    gates = [gate for load in metrics.get("workloads", {}).values() for gate in load["gates"]]
    missed = {gate["name"] for gate in gates if not gate["passed"]}
    return rule is not None and missed == {rule.name}

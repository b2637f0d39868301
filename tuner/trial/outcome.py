"""What a trial came to: one score over all its workloads, its gates, and what the sampler is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.load.record import Since
from tuner.load.workloads.declared import level_names
from tuner.score.gates import Gate, GateResult, Outcome
from tuner.score.objective import WEIGHTED, Objective, mean_figures
from tuner.score.rank import Standing, Tier, pessimistic_constraints
from tuner.spec import SearchSpace
from tuner.spec.space import Load

_FAILED = "start"


@dataclass(frozen=True, slots=True)
class Measured:
    """The loads of one trial, held against the gates.

    Attributes:
        standings: One a workload, by name.
        weights: What each workload counts in the score.
        objective: What the score is.
    """

    standings: Mapping[str, Standing]
    weights: Mapping[str, float]
    objective: Objective = WEIGHTED

    @property
    def score(self) -> float | None:
        """The score of the workloads' mean figures; None where one of them lacks a figure."""
        each = [(self.weights[name], s.figures) for name, s in self.standings.items()]
        return self.objective.score(mean_figures(each, self.objective.figures))

    @property
    def tier(self) -> Tier:
        """The worst of the workloads' tiers; without a score it is not feasible."""
        worst = max(s.tier for s in self.standings.values())
        return max(worst, Tier.INFEASIBLE) if self.score is None else worst

    @property
    def feasible(self) -> bool:
        """Whether every workload is complete and passed its gates."""
        return self.tier is Tier.FEASIBLE

    @property
    def shortfall(self) -> float:
        """What the failed gates of all workloads lack together."""
        return sum(s.shortfall for s in self.standings.values())

    @property
    def comparable(self) -> float | None:
        """The score, where it says something beside others of its level: of a complete population."""
        score = self.score
        whole = self.tier is not Tier.INCOMPLETE
        return score if whole and score is not None and score > 0 else None

    def constraints(self) -> dict[str, float]:
        """Violations for the sampler, by name; at most 0 is feasible."""
        found = {_FAILED: -1.0}
        for name, standing in self.standings.items():
            found |= {
                constraint_name(name, c, self.standings): v for c, v in standing.constraints.items()
            }
        return found

    def as_json(self) -> dict[str, Any]:
        """All figures and gates as JSON-ready data, for the ledger."""
        return {
            "score": self.score,
            "tier": self.tier.name.lower(),
            "shortfall": self.shortfall,
            "workloads": {
                name: {
                    "weight": self.weights[name],
                    "tier": s.tier.name.lower(),
                    "figures": dict(s.figures),
                    "gates": [gate_json(g) for g in s.gates],
                }
                for name, s in self.standings.items()
            },
        }


def level_weights(space: SearchSpace) -> dict[str, float]:
    """What each measured level counts in the score: a workload's weight, shared by its levels."""
    return weights_of_loads(space.loads)


def weights_of_loads(loads: Sequence[Load]) -> dict[str, float]:
    """The same for workloads of whichever level."""
    found: dict[str, float] = {}
    for load in loads:
        names = level_names(load.name, load.workload)
        found |= {name: load.weight / len(names) for name in names}
    return found


def latency_starts(loads: Sequence[Load]) -> dict[str, Since]:
    """Where the latencies of each measured level start, by its name."""
    return {
        name: load.workload.since
        for load in loads
        for name in level_names(load.name, load.workload)
    }


def constraint_name(workload: str, constraint: str, workloads: Mapping[str, Any]) -> str:
    """A constraint's name; the workload stands before it only where there are several."""
    return constraint if len(workloads) == 1 else f"{workload}.{constraint}"


def gate_json(result: GateResult) -> dict[str, Any]:
    """One gate and what became of it, as JSON-ready data."""
    return {
        "name": result.gate.name,
        "figure": result.gate.figure,
        "limit": result.gate.limit,
        "at_least": result.gate.at_least,
        "value": result.value,
        "outcome": str(result.outcome),
        "passed": result.outcome is Outcome.PASSED,
        "margin": result.margin,
    }


def failed_constraints(
    gates: Sequence[Gate], workloads: Mapping[str, Any], violation: float
) -> dict[str, float]:
    """The full vector of a trial that was never measured.

    Args:
        gates: The gates of the study.
        workloads: Its workloads, by name.
        violation: How far over it was, where a number is known: above 0.
    """
    found = {_FAILED: max(violation, 1e-3)}
    for name in workloads:
        found |= {
            constraint_name(name, c, workloads): v
            for c, v in pessimistic_constraints(gates).items()
        }
    return found


def unjudged_constraints(vector: Mapping[str, float]) -> dict[str, float]:
    """The full vector of a trial that started and whose load was ended before its gates were known.

    Args:
        vector: Any full vector, for its names.
    """
    return {name: -1.0 if name == _FAILED else 0.0 for name in vector}

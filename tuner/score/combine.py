"""Several loads of one deployment as one result: the score by declared weights, every gate of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tuner.score.gates import Gate
from tuner.score.rank import Standing, pessimistic_constraints


def combine(standings: Mapping[str, Standing], weights: Mapping[str, float]) -> Standing:
    """The result of a deployment that was measured under several loads.

    The objective is the weighted mean of the loads' own. Every gate counts for every load that has
    it, so the result is feasible when each load is; the success rate and the completeness are those
    of the load that lacks most. Other figures belong to one load and are not combined.

    Args:
        standings: Each load's result, by the load's name.
        weights: Each load's weight, 0 or more, not all of them 0. A load with weight 0 is gated and
            not scored.

    Raises:
        ValueError: When the loads and the weights do not match, a weight is negative or all are 0,
            or the objectives differ.
    """
    if not standings or set(standings) != set(weights):
        raise ValueError("each load needs a weight and each weight a load")
    total = sum(weights.values())
    if min(weights.values()) < 0 or total <= 0:
        raise ValueError("weights must be 0 or more and not all of them 0")
    objectives = {standing.objective for standing in standings.values()}
    if len(objectives) > 1:
        raise ValueError(f"the loads have different objectives: {', '.join(sorted(objectives))}")
    (objective,) = objectives
    score: float | None = 0.0
    for name, standing in standings.items():
        if weights[name] == 0:
            continue
        own = standing.score
        score = None if own is None or score is None else score + weights[name] * own / total
    worst = min(standings.values(), key=lambda s: s.success_rate / s.complete_at)
    return Standing(
        figures={objective: score, "success_rate": worst.success_rate},
        gates=tuple(
            replace(result, load=name)
            for name, standing in standings.items()
            for result in standing.gates
        ),
        complete_at=worst.complete_at,
        objective=objective,
    )


def pessimistic_for(gates: Mapping[str, Sequence[Gate]]) -> dict[str, float]:
    """The constraints of a deployment that was never measured under these loads.

    The names are those of :func:`combine`'s result for loads with the same gates.

    Args:
        gates: The gates of each load, by the load's name.
    """
    names = (f"{load}:{gate.name}" for load, own in gates.items() for gate in own)
    return pessimistic_constraints(()) | dict.fromkeys(names, 1.0)

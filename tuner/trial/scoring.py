"""What a search space asks for, in the words of the score room: gates, weights and the objective."""

from __future__ import annotations

from tuner.score.gates import Gate
from tuner.score.goodput import Limits
from tuner.score.objective import Objective
from tuner.score.official import Weights
from tuner.score.pareto import Objectives
from tuner.spec import SearchSpace


def gates_of(space: SearchSpace) -> tuple[Gate, ...]:
    """The gates that trials of a space are held against.

    The limit of a rule for two objectives is one of them. It takes the place of a gate on the same
    figure, which can only be one that nobody wrote.
    """
    declared = space.score.gates
    limits = {
        "success_rate": (declared.success_rate, True),
        "cache_hit_rate": (declared.cache_hit_rate, True),
        "ttft_p90_s": (declared.ttft_p90_s, False),
        "output_tps_p10": (declared.output_tps_p10, True),
        "weighted": (declared.weighted, True),
    }
    rule = objective_of(space).gate
    found = tuple(
        Gate(name, limit, at_least=least)
        for name, (limit, least) in limits.items()
        if limit != "off" and (rule is None or name != rule.figure)
    )
    return found if rule is None else (*found, rule)


def weights_of(space: SearchSpace) -> Weights:
    """The weights of a space's weighted score."""
    weights = space.score.weights
    return Weights(weights.output_tps, weights.uncached_input_tps, weights.cached_tps)


def objective_of(space: SearchSpace) -> Objective:
    """What trials of a space are ranked by."""
    score = space.score
    limits = None if score.limits is None else Limits(**score.limits.model_dump())
    if score.objectives is None or score.choose is None:
        return Objective(score.objective, limits)
    first, second = score.objectives
    choose = score.choose
    pair = Objectives(first, second, choose.balance, choose.best, choose.limit)
    return Objective(first, limits, pair)

from __future__ import annotations

from typing import Any

from tests.trial.factory import trial
from tuner.score.objective import WEIGHTED, Objective
from tuner.score.pareto import Objectives
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.front import front_of

LIMITED = Objective(
    "output_tps", pair=Objectives("output_tps", "ttft_p90_s", best="output_tps", limit=2.0)
)
BALANCED = Objective("output_tps", pair=Objectives("output_tps", "ttft_p90_s", balance=0.5))


def measured(
    number: int, tps: float, ttft: float, *, other_gate: bool = True, **fields: Any
) -> TrialRow:
    """A trial with the gate of the limited rule beside one on the success rate."""
    gates = [
        {"name": "success_rate_min", "passed": other_gate},
        {"name": "ttft_p90_s_max", "passed": ttft <= 2},
    ]
    load = {"weight": 1.0, "figures": {"output_tps": tps, "ttft_p90_s": ttft}, "gates": gates}
    given = {
        "metrics": {"tier": "feasible", "workloads": {"load": load}, "memory_floor": []},
        "score": tps,
        "feasible": other_gate and ttft <= 2,
    }
    return trial(number, **(given | fields))


def numbers(trials: list[TrialRow], objective: Objective = LIMITED) -> list[int]:
    found = front_of(trials, objective)
    assert found is not None
    return [one["trial"] for one in found["trials"]]


def test_one_objective_has_no_front() -> None:
    assert front_of([measured(0, 1.0, 1.0)], WEIGHTED) is None


def test_the_front_shows_what_the_limit_costs_and_the_rule_chooses_within_it() -> None:
    trials = [measured(0, 50, 0.5), measured(1, 100, 2), measured(2, 120, 4), measured(3, 90, 3)]
    found = front_of(trials, LIMITED)
    assert found is not None
    assert found["objectives"] == ["output_tps", "ttft_p90_s"]
    assert [(one["trial"], one["kept"]) for one in found["trials"]] == [
        (2, False),
        (1, True),
        (0, True),
    ]
    assert found["trials"][0]["figures"] == {"output_tps": 120, "ttft_p90_s": 4}
    assert found["chosen"] == 1


def test_where_none_keeps_the_limit_none_is_chosen() -> None:
    found = front_of([measured(0, 50, 3)], LIMITED)
    assert found is not None
    assert (len(found["trials"]), found["chosen"]) == (1, None)


def test_by_a_balance_the_best_score_is_chosen() -> None:
    trials = [measured(0, 50, 0.5, score=10.0), measured(1, 100, 1.8, score=7.45)]
    found = front_of(trials, BALANCED)
    assert found is not None
    assert found["chosen"] == 0


def test_what_does_not_count_is_not_on_the_front() -> None:
    over_limit = measured(8, 500, 4, metrics={**(measured(0, 500, 4).metrics or {})})
    floor = {**(measured(0, 500, 4).metrics or {}), "memory_floor": ["device 0 was full"]}
    dead = {**(measured(0, 500, 4).metrics or {}), "tier": "incomplete"}
    trials = [
        measured(0, 50, 0.5),
        measured(1, 500, 0.1, other_gate=False),
        measured(2, 500, 0.1, origin=Origin.REPEAT, repeats=0),
        measured(3, 500, 0.1, stage=Stage.VERIFIED),
        measured(4, 500, 0.1, history="of an earlier search space"),
        measured(5, 500, 0.1, feasible=False, judgement={"failed": True}),
        measured(6, 500, 4, metrics=floor),
        measured(7, 500, 4, metrics=dead),
    ]
    assert numbers(trials) == [0]
    assert numbers([*trials, over_limit]) == [8, 0]
    assert numbers([measured(0, 50, 4)], BALANCED) == []  # there it is a gate like any other


def test_several_workloads_count_by_their_weights() -> None:
    found = measured(0, 100, 1)
    assert found.metrics is not None
    (load,) = found.metrics["workloads"].values()
    half = {**load, "weight": 3.0, "figures": {"output_tps": 60.0, "ttft_p90_s": 2.0}}
    both = measured(0, 0, 1, metrics={**found.metrics, "workloads": {"a": load, "b": half}})
    front = front_of([both], LIMITED)
    assert front is not None
    assert front["trials"][0]["figures"] == {"output_tps": 70.0, "ttft_p90_s": 1.75}

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.load.record import ErrorClass, Record
from tuner.score.gates import OFFICIAL, Gate
from tuner.score.measure import measure
from tuner.score.official import weighted
from tuner.score.rank import Tier, pessimistic_constraints, rank, stand, standing

Make = Callable[..., Record]
LOOSE = (Gate("ttft_p90_s", 2.0, at_least=False),)


def platform_figures(run: dict[str, Any]) -> dict[str, float | None]:
    return {
        "success_rate": run["succeeded"] / run["planned"],
        "cache_hit_rate": run["cache_hit_rate"],
        "ttft_p90_s": run.get("ttft_p90_s"),
        "output_tps_p10": run["output_tps_p10"],
        "weighted": run["published"],
    }


@pytest.mark.parametrize("gates", [OFFICIAL, (), (Gate("weighted", 500.0, at_least=True),)])
def test_platform_runs_rank_against_their_scores(
    gates: tuple[Gate, ...], platform_runs: dict[str, dict[str, Any]]
) -> None:
    standings = {k: standing(platform_figures(run), gates) for k, run in platform_runs.items()}
    by_score = sorted(standings, key=lambda name: -(standings[name].score or 0))
    assert by_score == ["168", "694", "655"]
    assert rank(standings) == ("694", "655", "168")
    assert {s.tier for s in standings.values()} == {Tier.INCOMPLETE}


def test_early_death_with_a_high_score_ranks_below(make_record: Make, make_failure: Make) -> None:
    whole = measure([make_record(at) for at in range(0, 40, 2)])
    dead = [make_record(0.0, ttft=0.1, step=0.01, cached=0)]
    dead += [make_failure(ErrorClass.CONNECT, at=0.2) for _ in range(19)]
    died = measure(dead)
    assert (weighted(died) or 0) > 5 * (weighted(whole) or 0)
    standings = {"died": stand(died, LOOSE), "whole": stand(whole, LOOSE)}
    assert rank(standings) == ("whole", "died")
    assert rank({k: stand(m, ()) for k, m in (("died", died), ("whole", whole))})[0] == "whole"


def test_a_complete_failure_of_a_gate_is_still_above_an_incomplete_run(
    make_record: Make, make_failure: Make
) -> None:
    slow = stand(measure([make_record(ttft=60.0)]), LOOSE)
    died = stand(measure([make_record(), make_failure(ErrorClass.HTTP_4XX)]), LOOSE)
    assert (slow.tier, died.tier) == (Tier.INFEASIBLE, Tier.INCOMPLETE)
    assert rank({"died": died, "slow": slow}) == ("slow", "died")


def test_feasible_by_score_then_infeasible_by_shortfall() -> None:
    def made(ttft: float, score: float | None) -> dict[str, float | None]:
        return {"success_rate": 1.0, "ttft_p90_s": ttft, "weighted": score}

    standings = {
        "near": standing(made(2.2, 50.0), LOOSE),
        "far": standing(made(8.0, 900.0), LOOSE),
        "good": standing(made(1.0, 100.0), LOOSE),
        "better": standing(made(1.9, 110.0), LOOSE),
        "unscored": standing(made(1.0, None), LOOSE),
    }
    assert rank(standings) == ("better", "good", "unscored", "near", "far")


def test_a_lower_objective_is_better() -> None:
    standings = {
        name: standing({"success_rate": 1.0, "ttft_p90_s": p90}, (), objective="ttft_p90_s")
        for name, p90 in (("slow", 2.0), ("fast", 1.0))
    }
    assert rank(standings) == ("fast", "slow")


def test_completeness_follows_the_gate_on_success() -> None:
    lenient = (Gate("success_rate", 0.6, at_least=True),)
    assert standing({"success_rate": 0.7, "weighted": 1.0}, lenient).tier is Tier.FEASIBLE
    assert standing({"success_rate": 0.7, "weighted": 1.0}, ()).tier is Tier.INCOMPLETE
    assert (
        standing({"success_rate": 0.7, "weighted": 1.0}, (), complete_at=0.5).tier is Tier.FEASIBLE
    )


@pytest.mark.parametrize("complete_at", [0.0, 1.5])
def test_impossible_completeness_is_refused(complete_at: float) -> None:
    with pytest.raises(ValueError, match="complete"):
        standing({}, (), complete_at=complete_at)


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(ValueError, match="speed"):
        standing({}, (), objective="speed")


FIGURE = st.none() | st.floats(0, 1e5)


@given(
    success=st.floats(0, 1),
    figures=st.tuples(FIGURE, FIGURE, FIGURE, FIGURE),
)
def test_constraints_are_complete_bounded_and_say_what_the_tier_says(
    success: float, figures: tuple[float | None, ...]
) -> None:
    names = ("cache_hit_rate", "ttft_p90_s", "output_tps_p10", "weighted")
    found = standing({"success_rate": success} | dict(zip(names, figures, strict=True)), OFFICIAL)
    constraints = found.constraints
    assert list(constraints) == list(pessimistic_constraints(OFFICIAL))
    assert all(-1 <= value <= 1 for value in constraints.values())
    assert all(constraints[n] <= v for n, v in pessimistic_constraints(OFFICIAL).items())
    assert (found.tier is Tier.FEASIBLE) == all(value <= 0 for value in constraints.values())


@given(st.lists(st.tuples(st.floats(0, 1), FIGURE, FIGURE), min_size=2, max_size=8))
def test_no_incomplete_result_ranks_above_a_complete_one(
    rows: list[tuple[float, float | None, float | None]],
) -> None:
    standings = {
        str(i): standing({"success_rate": s, "ttft_p90_s": t, "weighted": w}, LOOSE)
        for i, (s, t, w) in enumerate(rows)
    }
    tiers = [standings[name].tier for name in rank(standings)]
    assert tiers == sorted(tiers)

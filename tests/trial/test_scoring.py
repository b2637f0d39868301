from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.conftest import filled
from tuner.score.figures import FIGURES
from tuner.score.gates import OFFICIAL
from tuner.score.goodput import Limits
from tuner.score.objective import WEIGHTED
from tuner.spec import SearchSpace, parse_space
from tuner.spec.score import Figure
from tuner.trial.scoring import gates_of, objective_of


def space(score: str) -> SearchSpace:
    return parse_space(filled(f"score: {{{score}}}"), Path("space.yaml"))


def test_by_default_it_is_the_weighted_score_and_the_platforms_gates() -> None:
    found = space("profile: official")
    assert objective_of(found) == WEIGHTED
    assert gates_of(found) == OFFICIAL


def test_goodput_takes_its_limits_along() -> None:
    found = objective_of(space("objective: goodput_rps, limits: {ttft_s: 2, output_tps: 5}"))
    assert (found.figure, found.limits) == ("goodput_rps", Limits(ttft_s=2, output_tps=5))


def test_the_limit_of_a_rule_stands_in_the_place_of_the_usual_gate() -> None:
    written = "objectives: [output_tps, ttft_p90_s], choose: {best: output_tps, limit: 30}"
    gates = [str(gate) for gate in gates_of(space(written))]
    assert gates == [
        *(str(gate) for gate in OFFICIAL if gate.figure != "ttft_p90_s"),
        "ttft_p90_s <= 30",
    ]
    assert (
        gates_of(space("objectives: [output_tps, ttft_p90_s], choose: {balance: 0.3}")) == OFFICIAL
    )


@pytest.mark.parametrize("name", Figure.__args__)  # type: ignore[attr-defined]  # of a Literal
def test_every_figure_that_may_be_declared_exists(name: str) -> None:
    assert name in FIGURES
    assert (FIGURES[name].better == "lower") == name.endswith("_s")  # as the pages say

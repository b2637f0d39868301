"""The tuner's decisions over whole simulated studies, by the simulation of ``benchmarks/decisions``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.slow

STUDIES = 200


@pytest.fixture(scope="module")
def simulate() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "decisions" / "simulate.py"
    spec = importlib.util.spec_from_file_location("decisions_simulate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def run(simulate: ModuleType, scenario: str) -> tuple[float, float, float]:
    """Shares of studies with a false and a true winner, and the runs that a study took."""
    truth, machine = simulate.SCENARIOS[scenario]
    generator = np.random.default_rng(2024)
    false = true = runs = 0
    for _ in range(STUDIES):
        engine = simulate.Engine(truth(generator), machine, generator)
        outcome = simulate.tuner_plan(engine)
        runs += outcome.runs
        if outcome.winner is not None:
            false += engine.effects[outcome.winner] <= 0
            true += engine.effects[outcome.winner] > 0
    return false / STUDIES, true / STUDIES, runs / STUDIES


@pytest.mark.parametrize(
    "scenario", ["nothing to find, 2 % noise", "nothing to find, wandering machine"]
)
def test_where_there_is_nothing_to_find_a_winner_is_rarely_named(
    simulate: ModuleType, scenario: str
) -> None:
    false, _, _ = run(simulate, scenario)
    assert false <= 0.05


@pytest.mark.parametrize(
    "scenario", ["5 % among 29 as good as the baseline", "5 % among 29 up to 30 % worse"]
)
def test_five_percent_in_two_percent_noise_is_found(simulate: ModuleType, scenario: str) -> None:
    false, true, runs = run(simulate, scenario)
    assert true >= 0.9
    assert false <= 0.01
    assert runs < 6 * 31  # what it takes to find it less often with a fixed number of runs

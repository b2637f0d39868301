from __future__ import annotations

import pytest

from benchmarks.levels_cpu.__main__ import HERE, SURFACE
from benchmarks.levels_cpu.outcome import grid_seconds, outcome
from tests.trial.factory import trial
from tuner.fidelity.surface import Surface, read_surface
from tuner.spec import load_space
from tuner.store.rows import Origin


@pytest.fixture(scope="module")
def surface() -> Surface:
    return read_surface(SURFACE)


def test_the_space_is_the_grid(surface: Surface) -> None:
    space = load_space(HERE / "space.yaml")
    size = 1
    for name, parameter in space.parameters.items():
        assert parameter.choices is not None
        size *= len(parameter.choices)
        seen = {point.params[name] for point in surface.points.values()}
        assert seen == set(parameter.choices)
        assert surface.head.baseline[name] == parameter.baseline
    assert size == len(surface.points)


def test_the_outcome_counts_all_engine_time_and_values_the_winner_by_the_grid(
    surface: Surface,
) -> None:
    best = max(surface.truth, key=lambda key: surface.truth[key])
    trials = [
        trial(0, origin=Origin.BASELINE, params=dict(surface.head.baseline)),
        trial(1, params=dict(surface.points[best].params)),
        trial(2, params=dict(surface.head.baseline), verdict="held_on_level"),
        trial(
            3, origin=Origin.REPEAT, block=0, repeats=1, params=dict(surface.points[best].params)
        ),
    ]
    seconds = {0: 40.0, 1: 50.0, 2: 30.0, 3: 60.0}
    found = outcome(surface, trials, seconds, 1, 1, [{"level": "brief"}])
    whole = grid_seconds(surface)
    assert whole == pytest.approx(1859.0, abs=1)
    assert found["ratio"] == pytest.approx(180 / whole, abs=1e-3)
    assert found["ratio_of_search"] == pytest.approx(120 / whole, abs=1e-3)
    assert found["winner"]["below_grid_best"] == 0
    assert found["verdicts"] == {"healthy": 3, "held_on_level": 1}
    base = outcome(surface, trials, seconds, 0, None, [])
    assert base["winner"]["below_grid_best"] > 0.5
    assert base["best_finalist"] is None

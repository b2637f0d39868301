"""The benchmark of searches: what it counts is what happened."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.search.bench import Bench, Space, crossed
from benchmarks.search.strategies import STRATEGIES
from tuner.fidelity.surface import Surface, read_surface

FILE = Path(__file__).parents[2] / "benchmarks" / "search" / "surfaces" / "cpu_tiny.jsonl"


@pytest.fixture(scope="module")
def surface() -> Surface:
    return read_surface(FILE)


def test_the_recorded_grid_is_whole(surface: Surface) -> None:
    sizes = [len(values) for values in surface.choices().values()]
    assert len(surface.points) == math.prod(sizes) == 48
    assert surface.sigma("full") == pytest.approx(0.07, abs=0.01)  # eight runs of one point
    assert len({p.predicted for p in surface.points.values() if p.predicted}) >= 4


def test_a_bench_counts_what_it_is_asked(surface: Surface) -> None:
    bench = Bench(crossed(surface), seed=3)
    good = next(key for key, p in bench.surface.points.items() if p.levels)
    bad = next(key for key, p in bench.surface.points.items() if not p.levels)
    assert bench.run(bad) is None
    assert bench.incumbent() is None
    value = bench.run(good)
    assert value == pytest.approx(bench.surface.truth[good], rel=0.35)
    point = bench.surface.points[good]
    assert bench.seconds == pytest.approx(37 + point.start + point.seconds("full"))
    assert (bench.launches, bench.lost) == (2, 1)
    assert bench.incumbent() == good
    assert bench.seconds_to(bench.regret(good)) == pytest.approx(bench.seconds)
    assert math.isinf(Bench(surface, 1).seconds_to(0.5))


def test_a_point_has_one_name_on_both_sides(surface: Surface) -> None:
    space = Space.of(surface)
    for key, point in surface.points.items():
        assert space.key(space.assignment(point)) == key


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_way_to_search_declares_a_point_that_runs(name: str, surface: Surface) -> None:
    bench = Bench(crossed(surface), seed=5)
    winner = STRATEGIES[name](bench, 14)
    assert winner in bench.surface.truth
    assert bench.launches >= 14
    if name.startswith("ours"):
        assert bench.lost == 0

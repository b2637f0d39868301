"""Whole simulated studies: a right proxy saves trials, a wrong one is never ON for long."""

from __future__ import annotations

import statistics

import pytest

from tests.fidelity.worlds import (
    Proxy,
    Study,
    World,
    good,
    inverted,
    layout_biased,
    layout_only,
    shuffled,
    study,
    tied,
)
from tuner.fidelity.evidence import Mode

pytestmark = pytest.mark.slow

SEEDS = range(8)


def everything_ran(done: Study, world: World) -> bool:
    return set(done.order) == set(world.points)


def test_a_right_proxy_is_opened_and_finds_the_best_early() -> None:
    done = [study(World(seed), good) for seed in SEEDS]
    plain = [study(World(seed), tied) for seed in SEEDS]
    assert sum(d.gate.opened is not None for d in done) >= 7
    saved = statistics.mean(d.when_best for d in done) / statistics.mean(d.when_best for d in plain)
    assert saved < 0.5


@pytest.mark.parametrize("proxy", [inverted, tied, layout_only, shuffled])
def test_a_proxy_that_knows_nothing_is_never_opened(proxy: Proxy) -> None:
    for seed in SEEDS:
        world = World(seed)
        done = study(world, proxy)
        assert done.gate.mode is Mode.SHADOW
        assert done.on == 0
        assert everything_ran(done, world)


def test_a_proxy_that_is_wrong_in_the_best_layout_is_closed_by_what_runs() -> None:
    opened = 0
    for seed in range(24):
        world = World(seed)
        done = study(world, layout_biased)
        opened += done.gate.opened is not None
        assert done.gate.mode is not Mode.ON
        assert done.on <= 2 * done.gate.limits.audit_every
        assert everything_ran(done, world)
    assert opened  # else this shows nothing


def test_a_proxy_that_grows_wrong_while_it_is_trusted_is_closed() -> None:
    opened = 0
    for seed in SEEDS:
        still = World(seed)
        best = still.layout[max(still.points, key=lambda p: still.real[p])]
        other = next(layout for layout in ("tp1", "tp2", "tp4") if layout != best)
        # Another layout gains 5 % a trial: after 14 of them it has doubled.
        world = World(seed, drift={other: 0.05})
        done = study(world, good)
        opened += done.gate.opened is not None
        assert done.gate.mode is not Mode.ON
        assert done.on <= 2 * done.gate.limits.audit_every
        assert everything_ran(done, world)
    assert opened


def test_what_was_deferred_runs_in_its_own_order_once_the_gate_is_closed() -> None:
    done = next(d for d in (study(World(s), layout_biased) for s in range(40)) if d.gate.opened)
    closed = done.gate.closing
    assert closed is not None
    after = done.order[closed.after :]
    assert set(done.roles[closed.after :]) == {"plain"}
    assert set(done.gate.deferred) & set(after)

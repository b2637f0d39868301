"""Simulated studies: a surface with noise, a proxy that is right or wrong in a known way, a gate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tuner.fidelity.evidence import GateKey, Mode, Predicted
from tuner.fidelity.gate import Gate
from tuner.fidelity.screen import plan_anchors

KEY = GateKey(proxy="p1", engine="e", variants="v", model="m", device="d", workload="w", score="s")
LAYOUTS = ("tp1", "tp2", "tp4")
BASELINE = "tp1/0"


@dataclass
class World:
    """A surface of three layouts with twelve points each, a factor of about four from end to end.

    Attributes:
        seed: Seed of everything.
        sigma: Relative noise of a measurement.
        drift: By what part each trial a layout's real values grow, by layout.
    """

    seed: int
    sigma: float = 0.02
    drift: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.points = [f"{layout}/{x}" for layout in LAYOUTS for x in range(12)]
        self.layout = {p: p.split("/")[0] for p in self.points}
        factor = dict(zip(LAYOUTS, np.exp(self.random.normal(0, 0.25, 3)), strict=True))
        peak = dict(zip(LAYOUTS, self.random.uniform(3, 11, 3), strict=True))
        self.real = {
            p: factor[self.layout[p]]
            * (0.6 + math.exp(-(((int(p.split("/")[1]) - peak[self.layout[p]]) / 5) ** 2)))
            * math.exp(self.random.normal(0, 0.03))
            for p in self.points
        }
        self.trials = 0

    def run(self, point: str) -> float:
        """Measure a point once."""
        grown = (1 + self.drift.get(self.layout[point], 0.0)) ** self.trials
        self.trials += 1
        return float(self.real[point] * grown * math.exp(self.random.normal(0, self.sigma)))


Proxy = Callable[[World], dict[str, float]]


def good(world: World) -> dict[str, float]:
    """Wrong by a factor a layout and 3 % beside it."""
    factor = dict(zip(LAYOUTS, np.exp(world.random.normal(0, 0.4, 3)), strict=True))
    return {
        p: world.real[p] * factor[world.layout[p]] * math.exp(world.random.normal(0, 0.03))
        for p in world.points
    }


def inverted(world: World) -> dict[str, float]:
    return {p: 1 / world.real[p] for p in world.points}


def tied(world: World) -> dict[str, float]:
    return dict.fromkeys(world.points, 1.0)


def layout_only(world: World) -> dict[str, float]:
    """Knows the mean of each layout and nothing else."""
    return {
        p: float(
            np.mean([world.real[q] for q in world.points if world.layout[q] == world.layout[p]])
        )
        for p in world.points
    }


def layout_biased(world: World) -> dict[str, float]:
    """Right in two layouts and turned round in the one that holds the best point."""
    best = world.layout[max(world.points, key=lambda p: world.real[p])]
    return {
        p: (1 / world.real[p] if world.layout[p] == best else world.real[p]) for p in world.points
    }


def shuffled(world: World) -> dict[str, float]:
    """As spread as the real values, and in an order of its own."""
    values = world.random.permutation(list(world.real.values()))
    return dict(zip(world.points, values.tolist(), strict=True))


@dataclass
class Study:
    """What a simulated study came to.

    Attributes:
        gate: The gate at the end.
        order: Points in the order in which they ran.
        roles: Why each of them ran.
        on: Trials that ran while the proxy was trusted.
        when_best: How many trials it took until the truly best point had run.
    """

    gate: Gate
    order: list[str]
    roles: list[str]
    on: int
    when_best: int


def study(world: World, proxy: Proxy, *, shuffle: bool = True) -> Study:
    """Run every point: anchors first, then as the gate chooses."""
    said = {p: Predicted(layout=world.layout[p], value=v) for p, v in proxy(world).items()}
    gate = Gate(key=KEY).predict(said)
    order: list[str] = []
    roles: list[str] = []
    raw = {p: s.value for p, s in said.items()}
    for point in plan_anchors(raw, world.layout, BASELINE, limits=gate.limits, repeats=3):
        gate = gate.record(point, world.run(point))
        order.append(point)
        roles.append("anchor")
    waiting = [p for p in world.points if p not in order]
    if shuffle:
        world.random.shuffle(waiting)
    on = 0
    while waiting:
        choice, gate = gate.choose(waiting)
        on += gate.mode is Mode.ON
        waiting.remove(choice.point)
        gate = gate.record(choice.point, world.run(choice.point), choice.role)
        gate = Gate.model_validate_json(gate.model_dump_json())
        order.append(choice.point)
        roles.append(choice.role)
    best = max(world.points, key=lambda p: world.real[p])
    return Study(gate, order, roles, on, order.index(best) + 1)

"""A recorded surface in place of an engine: every run costs what it did, and is as noisy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tuner.fidelity.surface import Point, Surface, key_of
from tuner.spec.axes import Assignment, Axis, Kind

SIGMA = 0.02  # for a level of which nothing was repeated
CRASH_S = 37.0  # a start of vLLM on the CPU with more KV space than the machine has, measured


@dataclass(frozen=True)
class Moment:
    """Where a search stood after a trial: seconds spent, and the best it had measured."""

    seconds: float
    incumbent: str | None


@dataclass
class Bench:
    """An engine that answers from a surface.

    Attributes:
        surface: The surface.
        seed: Seed of the noise.
        seconds: Engine seconds spent.
        launches: Engines started.
        lost: Launches that came to nothing.
        history: Where the search stood after each launch and each real measurement.
        seen: Every real measurement, by point.
    """

    surface: Surface
    seed: int
    seconds: float = 0.0
    launches: int = 0
    lost: int = 0
    history: list[Moment] = field(default_factory=list)
    seen: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng([self.seed, 77])
        real = self.surface.head.real
        levels = {level for p in self.surface.points.values() for level in p.levels}
        self._sigma = {level: self.surface.sigma(level) or SIGMA for level in levels}
        self._real = real

    @property
    def sigma(self) -> float:
        """Relative noise of one real measurement."""
        return self._sigma[self._real]

    def start(self, key: str) -> bool:
        """Start a point's engine; false where it comes to nothing."""
        point = self.surface.points[key]
        self.launches += 1
        self.seconds += point.start + point.lost_s
        runs = self._real in point.levels
        self.lost += not runs
        self.history.append(Moment(self.seconds, self.incumbent()))
        return runs

    def measure(self, key: str, level: str) -> float:
        """Measure the point whose engine is up."""
        point = self.surface.points[key]
        self.seconds += point.seconds(level)
        value = self._noisy(point, level)
        if level == self._real:
            self.seen.setdefault(key, []).append(value)
            self.history.append(Moment(self.seconds, self.incumbent()))
        return value

    def run(self, key: str) -> float | None:
        """Start a point and measure it; None where it comes to nothing."""
        return self.measure(key, self._real) if self.start(key) else None

    def _noisy(self, point: Point, level: str) -> float:
        mean = point.value(level)
        assert mean is not None
        return mean * math.exp(self._random.normal(0, self._sigma[level]))

    def incumbent(self) -> str | None:
        """The point with the best mean of its real measurements."""
        means = {k: math.exp(np.mean(np.log(v))) for k, v in self.seen.items()}
        return max(means, key=lambda k: means[k], default=None)

    def regret(self, key: str | None) -> float:
        """How far a point truly is below the best, as a part of the best; 1 for none."""
        return 1.0 if key is None else 1 - self.surface.truth[key] / self.surface.best

    def seconds_to(self, within: float) -> float:
        """Seconds until the incumbent was truly within a part of the best; inf if it never was."""
        for moment in self.history:
            if self.regret(moment.incumbent) <= within:
                return moment.seconds
        return math.inf


@dataclass(frozen=True)
class Space:
    """A surface's grid as a sampler's axes."""

    axes: tuple[Axis, ...]
    values: dict[str, tuple[str | int | float | bool, ...]]

    @classmethod
    def of(cls, surface: Surface) -> Space:
        """The axes of a surface's grid."""
        values = surface.choices()
        axes = []
        for name, choices in values.items():
            numbers = all(isinstance(c, int | float) and not isinstance(c, bool) for c in choices)
            kind: Kind = "ordinal" if numbers else "categorical"
            axes.append(Axis(name, kind, 0, len(choices) - 1))
        return cls(tuple(axes), values)

    def key(self, assignment: Assignment) -> str:
        """The surface's name of a point of the sampler's."""
        return key_of({name: self.values[name][int(n)] for name, n in assignment.items()})

    def assignment(self, point: Point) -> dict[str, int]:
        """The sampler's name of a point of the surface's."""
        return {name: self.values[name].index(value) for name, value in point.params.items()}


def crossed(surface: Surface, *, foreseen: bool = True) -> Surface:
    """The surface crossed with a KV space of which one size in four does not fit the machine.

    The failure is a recorded one (it takes 37 s and is the same at every point); that 1, 2 and 4 GiB
    are equally good is an assumption, which the recorded load, far below 1 GiB, makes safe.
    """
    points = []
    for point in surface.points.values():
        for size in (1, 2, 4, 64):
            params = {**point.params, "kv_space": size}
            if size < 64:
                points.append(point.model_copy(update={"params": params}))
                continue
            points.append(
                Point(
                    params=params,
                    start_s=(CRASH_S,),
                    verdict="memory",
                    foreseen=foreseen,
                    layout=point.layout,
                    predicted=point.predicted,
                )
            )
    head = surface.head.model_copy(
        update={
            "surface": f"{surface.head.surface} x KV space",
            "baseline": {**surface.head.baseline, "kv_space": 1},
            "recorded": False,
        }
    )
    return Surface(head, points)

"""The ways to search that are compared: three that are common, and the tuner's own."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable

import optuna
from optuna.samplers import TPESampler
from optuna.trial import TrialState

from benchmarks.search.bench import Bench, Space
from tuner.fidelity.agreement import Ladder, Level
from tuner.fidelity.evidence import GateKey, Mode, Predicted, Role
from tuner.fidelity.gate import Gate
from tuner.fidelity.levels import Climb
from tuner.fidelity.screen import plan_anchors
from tuner.fidelity.surface import key_of
from tuner.search.keys import key as name_of
from tuner.search.sampler import Sampler, Told

STARTUP = 8
FINALISTS = 3
ROUNDS = 2

Strategy = Callable[[Bench, int], str | None]
"""Runs a bench for so many launches and declares a winner."""

warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
optuna.logging.set_verbosity(optuna.logging.ERROR)


def by_chance(bench: Bench, launches: int) -> str | None:
    """Points in random order, none twice."""
    order = list(bench.surface.points)
    random.Random(bench.seed).shuffle(order)
    for key in order[:launches]:
        bench.run(key)
    return bench.incumbent()


def tpe_fail(bench: Bench, launches: int) -> str | None:
    """TPE, to which a point that does not run is told as failed; suggestions are run as they come."""
    return _tpe(bench, launches, constrained=False)


def tpe_constrained(bench: Bench, launches: int) -> str | None:
    """TPE, to which a point that does not run is a violated constraint with a low value."""
    return _tpe(bench, launches, constrained=True)


def _tpe(bench: Bench, launches: int, *, constrained: bool) -> str | None:
    space = Space.of(bench.surface)
    sampler = TPESampler(seed=bench.seed, n_startup_trials=STARTUP, multivariate=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(launches):
        trial = study.ask()
        chosen = {
            axis.name: (
                trial.suggest_int(axis.name, int(axis.low), int(axis.high))
                if axis.kind == "ordinal"
                else trial.suggest_categorical(axis.name, list(range(axis.size or 0)))
            )
            for axis in space.axes
        }
        value = bench.run(space.key(chosen))
        if constrained:
            trial.set_constraint("start", 1.0 if value is None else -1.0)
            study.tell(trial, 0.0 if value is None else value)
        elif value is None:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, value)
    return bench.incumbent()


class Ours:
    """The tuner's search: the baseline first, no point twice, and what cannot run is not started."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.space = Space.of(bench.surface)
        self.sampler = Sampler(self.space.axes, kind="tpe", seed=bench.seed, startup=STARTUP)
        self.taken: set[str] = set()
        self.number = 0
        self.baseline = key_of(bench.surface.head.baseline)

    def ask(self) -> str | None:
        """The next point that may be started; those that are known not to run are told at once."""
        while True:
            assignment = self.sampler.ask(self.number, self.taken)
            self.number += 1
            if assignment is None:
                return None
            key = self.space.key(assignment)
            if not self.bench.surface.points[key].foreseen:
                return key
            self.tell(key, None)

    def tell(self, key: str, value: float | None) -> None:
        """Tell the sampler what a point came to; None is a violated constraint."""
        assignment = self.space.assignment(self.bench.surface.points[key])
        self.taken.add(name_of(assignment))
        violation = 1.0 if value is None else -1.0
        self.sampler.tell(Told(assignment, value or 0.0, {"start": violation}))

    def measure(self, key: str) -> float | None:
        """Run a point and tell what it came to."""
        value = self.bench.run(key)
        self.tell(key, value)
        return value

    def finish(self) -> str | None:
        """Measure the best again and the baseline beside them, and declare by all measurements."""
        seen = self.bench.seen
        best = sorted(seen, key=lambda k: -max(seen[k]))[:FINALISTS]
        again = dict.fromkeys([self.baseline, *best])
        for _ in range(ROUNDS):
            for key in again:
                self.bench.run(key)
        means = {key: sum(seen[key][-ROUNDS:]) / ROUNDS for key in again if key in seen}
        return max(means, key=lambda k: means[k], default=None)


def ours(bench: Bench, launches: int) -> str | None:
    """The tuner's search without any stand-in."""
    search = Ours(bench)
    search.measure(search.baseline)
    while bench.launches < launches and (key := search.ask()) is not None:
        search.measure(key)
    return search.finish()


def ours_with_proxy(bench: Bench, launches: int) -> str | None:
    """The same with a proxy behind the gate, and with levels where the surface has any."""
    return Helped(bench).search(launches)


class Helped(Ours):
    """The tuner's search with stand-ins that have to earn their say."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        points = bench.surface.points
        said = {
            key: Predicted(layout=point.layout, value=point.predicted)
            for key, point in points.items()
            if point.predicted is not None and not point.foreseen
        }
        self.gate = Gate(key=_KEY).predict(said)
        raw = {key: p.value for key, p in said.items()}
        layouts = {key: p.layout for key, p in said.items()}
        self.anchors = plan_anchors(
            raw,
            layouts,
            self.baseline,
            limits=self.gate.limits,
            again=max(raw, key=lambda key: raw[key]),
            seed=str(bench.seed),
        )
        self.climb = self._ladder()
        self.order = [key for key, point in points.items() if not point.foreseen]
        random.Random(bench.seed).shuffle(self.order)

    def _ladder(self) -> Climb | None:
        """The surface's levels from the cheapest to the real one; None where it has but one."""
        points = [p for p in self.bench.surface.points.values() if p.levels]
        real = self.bench.surface.head.real
        costs = {level: sum(p.seconds(level) for p in points) for level in points[0].levels}
        if len(costs) == 1:
            return None
        names = sorted(costs, key=lambda level: (level == real, costs[level]))
        ladder = Ladder(levels=tuple(Level(name=n, cost=costs[n]) for n in names))
        return Climb(ladder=ladder, anchors=tuple(dict.fromkeys(self.anchors)))

    def search(self, launches: int) -> str | None:
        """Anchors first, then as the sampler asks and the gate allows."""
        told: set[str] = set()
        for key in self.anchors:
            self.take(key, "plain", tell=key not in told)
            told.add(key)
        while self.bench.launches < launches and (asked := self.ask()) is not None:
            self.take(*self.choose(asked), tell=True)
        return self.finish()

    def choose(self, asked: str) -> tuple[str, Role]:
        """What the sampler asked for, or what a trusted proxy puts before it."""
        if self.gate.mode is not Mode.ON:
            return asked, "plain"
        done = {o.point for o in self.gate.observations}
        waiting = [asked, *(k for k in self.order if k != asked and k not in done)]
        choice, self.gate = self.gate.choose(waiting)
        return choice.point, choice.role

    def take(self, key: str, role: Role, *, tell: bool) -> None:
        """Run a point, as far up the levels as it deserves, and tell everyone."""
        value, real = self.answer(key)
        if tell:
            self.tell(key, value)
        if real or value is None:
            self.gate = self.gate.record(key, value, role)

    def answer(self, key: str) -> tuple[float | None, bool]:
        """A point's value, and whether it is a real one and not put up from a cheaper level."""
        real = self.bench.surface.head.real
        if not self.bench.start(key):
            return None, False
        if self.climb is None:
            return self.bench.measure(key, real), True
        level = self.climb.entry
        while True:
            value = self.bench.measure(key, level)
            self.climb = self.climb.record(key, level, value)
            if level == real:
                return value, True
            if self.climb.decide(key, level).verdict == "hold":
                return value * (self.climb.agreement(level).bias or 1.0), False
            level = self.climb.ladder.above(level)


_KEY = GateKey(
    proxy="steps", engine="e", variants="v", model="m", device="d", workload="w", score="s"
)

STRATEGIES: dict[str, Strategy] = {
    "random": by_chance,
    "TPE, OOM told as FAIL": tpe_fail,
    "TPE, OOM told as a constraint": tpe_constrained,
    "ours": ours,
    "ours, levels and proxy": ours_with_proxy,
}

"""A study without engines: the tuner's own code decides what runs next, and a synthetic engine measures.

What a study does with figures is all here as the product does it: the A/A runs, rivals that are run
again (:func:`tuner.trial.contest.contend`), the rounds of the finalists
(:func:`tuner.trial.contest.confirm`) and the decision (:func:`tuner.trial.decision.decide`), with the
settings that a search space gives. Only the sampler is missing: each candidate is offered once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tuner.spec.document import Search
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.contest import Hands, confirm, contend
from tuner.trial.decision import Decision, decide
from tuner.trial.finalists import Repeat
from tuner.trial.repeats import baseline_repeats, standing

BASELINE = "baseline"


@dataclass(frozen=True)
class Machine:
    """What a machine does to measurements: noise, steady drift and wandering from run to run."""

    sigma: float
    drift: float = 0.0
    wander: float = 0.0
    tail: float = math.inf


@dataclass
class Engine:
    """A synthetic engine: true effects on the log scale, measured on a machine."""

    effects: dict[str, float]
    machine: Machine
    generator: np.random.Generator
    runs: int = 0
    level: float = 0.0

    def run(self, name: str) -> float:
        """Start, measure and stop once."""
        self.runs += 1
        machine = self.machine
        self.level += machine.drift + machine.wander * self.generator.standard_normal()
        error = self.generator.standard_normal()
        if math.isfinite(machine.tail):
            tail = machine.tail
            error = self.generator.standard_t(tail) / math.sqrt(tail / (tail - 2))
        return 100 * math.exp(self.effects.get(name, 0.0) + self.level + machine.sigma * error)


@dataclass
class Simulated:
    """A study on a synthetic engine."""

    engine: Engine
    search: Search
    rows: list[TrialRow] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def run(self) -> Decision:
        """Run it to its end."""
        self._measure(BASELINE, Origin.BASELINE)
        for repeat in baseline_repeats(self.rows, self.search.repeats.baseline):
            self.again(repeat)
        for name in self.engine.effects:
            self._measure(name, Origin.SEARCH)
        hands = Hands(lambda: self.rows, self.again, lambda _, **__: None, lambda: False)
        contend(self.search, hands)
        finalists = standing(self.rows, self.search).finalists
        confirm(self.search, hands, finalists)
        return decide(self.rows, finalists, self.search.finalists.rounds)

    def again(self, repeat: Repeat) -> None:
        """Measure a trial again."""
        self._measure(self.names[repeat.of], Origin.REPEAT, repeat)

    def _measure(self, name: str, origin: Origin, repeat: Repeat | None = None) -> None:
        self.rows.append(
            TrialRow(
                study=1,
                number=len(self.rows),
                origin=origin,
                repeats=None if repeat is None else repeat.of,
                block=None if repeat is None else repeat.block,
                params={},
                assignment=None,
                deployment={},
                stage=Stage.TOLD,
                attempt=1,
                verdict="healthy",
                judgement=None,
                metrics=None,
                score=self.engine.run(name),
                feasible=True,
                constraints=None,
                value=None,
                created=0.0,
                ended=None,
            )
        )
        self.names.append(name)

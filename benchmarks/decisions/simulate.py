"""How often the tuner's decisions are right, on simulated studies whose truth is known.

Each study has a baseline and 30 candidates on a synthetic engine: a measurement is the candidate's
true figure times log-normal noise, times the machine's drift, which goes on from run to run. The
rules are the tuner's own (:mod:`tuner.score`) with their own defaults, and not with those of a
search space: A/A runs of the baseline, also between the candidates, one run for each candidate,
repeats while they can change the finalists, then A-B-B-A pairs until the answer is clear. Beside it
stand plans that repeat everything a fixed number of times, in rounds of random order, so that drift
does not decide for them.

Usage: python benchmarks/decisions/simulate.py [--studies 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tuner.score.confirm import Confirmation, Decision, Next, winner
from tuner.score.contenders import Selection, contenders
from tuner.score.noise import Noise, pooled_noise
from tuner.score.paired import ABBA, Arm, Run

CANDIDATES = 30
SELECTION = Selection()
CONFIRMATION = Confirmation(finalists=SELECTION.finalists, worthwhile=SELECTION.worthwhile)


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


@dataclass(frozen=True)
class Outcome:
    """What a plan ended with: the winner, the gain that it claims, and what it cost."""

    winner: str | None
    claimed: float
    runs: int


Plan = Callable[[Engine], Outcome]


def tuner_plan(engine: Engine) -> Outcome:
    """The tuner's own way."""
    baseline = [engine.run("baseline") for _ in range(2)]
    trials: dict[str, list[float]] = {}
    for index, name in enumerate(engine.effects):
        trials[name] = [engine.run(name)]
        if index % 10 == 9:
            baseline.append(engine.run("baseline"))
    while True:
        noise = pooled_noise([baseline, *trials.values()])
        found = contenders(trials, baseline, noise, SELECTION)
        if not found.repeat:
            break
        for name in found.repeat:
            trials[name].append(engine.run(name))
        baseline.append(engine.run("baseline"))
    decisions = {name: confirm(engine, name) for name in found.finalists}
    best = winner(decisions)
    comparison = decisions[best].comparison if best is not None else None
    return Outcome(best, comparison.ratio - 1 if comparison else 0.0, engine.runs)


def confirm(engine: Engine, name: str) -> Decision:
    """Measure one finalist in pairs with the baseline until the answer is clear."""
    runs: list[Run] = []
    while True:
        runs += [Run(a, engine.run("baseline" if a is Arm.BASELINE else name)) for a in ABBA]
        decision = CONFIRMATION.decide(runs)
        if decision.next is not Next.GO_ON:
            return decision


def fixed_plan(repeats: int, *, corrected: bool) -> Plan:
    """So many rounds over the baseline and every candidate, then a t test of the best one.

    Each round has an order of its own, and what differs between rounds is taken out.
    """

    def plan(engine: Engine) -> Outcome:
        names = ["baseline", *engine.effects]
        logs = np.empty((repeats, len(names)))
        for lap in logs:
            for index in engine.generator.permutation(len(names)):
                lap[index] = math.log(engine.run(names[index]))
        logs -= logs.mean(axis=1, keepdims=True)
        means = logs.mean(axis=0)
        best = int(np.argmax(means[1:])) + 1
        gain = float(means[best] - means[0])
        clear = gain > 0
        if repeats > 1:
            df = (repeats - 1) * (len(names) - 1)
            noise = Noise(math.sqrt(float(((logs - means) ** 2).sum()) / df), df)
            error = 0.025 / (len(engine.effects) if corrected else 1)
            clear = gain > noise.bound(error, repeats, repeats)
        return Outcome(names[best] if clear else None, math.expm1(gain), engine.runs)

    return plan


PLANS: dict[str, Plan] = {
    "tuner": tuner_plan,
    "1 run each, take the best": fixed_plan(1, corrected=False),
    "3 runs each, t test of the best": fixed_plan(3, corrected=False),
    "3 runs each, corrected t test": fixed_plan(3, corrected=True),
    "6 runs each, corrected t test": fixed_plan(6, corrected=True),
}


def nothing(_: np.random.Generator) -> dict[str, float]:
    """Every candidate is as good as the baseline."""
    return {f"c{i}": 0.0 for i in range(CANDIDATES)}


def worse(generator: np.random.Generator) -> dict[str, float]:
    """Every candidate is up to 30 % worse, or as good."""
    return {f"c{i}": min(0.0, generator.uniform(-0.3, 0.05)) for i in range(CANDIDATES)}


def one_of(effect: float, rest: Callable[[np.random.Generator], dict[str, float]]) -> Truth:
    """One candidate has a gain, the rest is as given."""

    def truth(generator: np.random.Generator) -> dict[str, float]:
        effects = rest(generator)
        effects[f"c{generator.integers(CANDIDATES)}"] = math.log1p(effect)
        return effects

    return truth


Truth = Callable[[np.random.Generator], dict[str, float]]

SCENARIOS: dict[str, tuple[Truth, Machine]] = {
    "nothing to find, 2 % noise": (nothing, Machine(sigma=0.02)),
    "nothing to find, 7 % noise": (nothing, Machine(sigma=0.07)),
    "nothing to find, drift of 0.2 % a run": (nothing, Machine(sigma=0.02, drift=-0.002)),
    "nothing to find, wandering machine": (nothing, Machine(sigma=0.02, wander=0.01)),
    "nothing to find, heavy tails": (nothing, Machine(sigma=0.02, tail=3.0)),
    "5 % among 29 as good as the baseline": (one_of(0.05, nothing), Machine(sigma=0.02)),
    "5 % among 29 up to 30 % worse": (one_of(0.05, worse), Machine(sigma=0.02)),
    "5 %, drift of 0.2 % a run": (one_of(0.05, worse), Machine(sigma=0.02, drift=-0.002)),
    "5 %, heavy tails": (one_of(0.05, worse), Machine(sigma=0.02, tail=3.0)),
    "2 % among 29 up to 30 % worse": (one_of(0.02, worse), Machine(sigma=0.02)),
}


def rows(studies: int, seed: int) -> Iterator[str]:
    """The table, line by line."""
    yield f"| {'engine':38} | {'plan':32} | false winner | true winner | runs | claim - truth |"
    yield f"|{'-' * 40}|{'-' * 34}|{'-' * 14}|{'-' * 13}|{'-' * 6}|{'-' * 15}|"
    for scenario, (truth, machine) in SCENARIOS.items():
        for plan_name, plan in PLANS.items():
            generator = np.random.default_rng(seed)
            false = true = runs = 0
            claims = []
            for _ in range(studies):
                engine = Engine(truth(generator), machine, generator)
                outcome = plan(engine)
                runs += outcome.runs
                if outcome.winner is not None:
                    effect = engine.effects[outcome.winner]
                    false += effect <= 0
                    true += effect > 0
                    claims.append(outcome.claimed - math.expm1(effect))
            bias = f"{100 * float(np.mean(claims)):+.1f} %" if claims else "-"
            yield (
                f"| {scenario:38} | {plan_name:32} | {chance(false, studies):>12} | "
                f"{chance(true, studies):>11} | {runs / studies:4.0f} | {bias:>13} |"
            )


def chance(count: int, of: int) -> str:
    """A share in percent."""
    return f"{100 * count / of:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for line in rows(arguments.studies, arguments.seed):
        print(line, flush=True)
    upper = float(stats.beta.ppf(0.95, 0.05 * arguments.studies + 1, 0.95 * arguments.studies))
    print(f"\n{arguments.studies} studies a line; 5 % seen could be {100 * upper:.1f} % in truth")


if __name__ == "__main__":
    main()

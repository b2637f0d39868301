"""How often the tuner's decisions are right, on simulated studies whose truth is known.

Each study has a baseline and candidates on a synthetic engine: a measurement is the candidate's true
figure times log-normal noise, times the machine's drift, which goes on from run to run. The tuner's
plans are its own code with the settings of a search space: those that hold when nothing is written,
and those of the search spaces that come with it. Beside them stand plans that repeat everything a
fixed number of times, in rounds of random order, so that drift does not decide for them.

Usage: python -m benchmarks.decisions.simulate [--studies 200] [--seed 1] [--tuner | --shipped]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from scipy import stats

from benchmarks.decisions.study import BASELINE, Engine, Machine, Simulated
from tuner.score.noise import Noise
from tuner.spec.document import Search

CANDIDATES = 30
SPACES = Path(__file__).parents[2] / "search_spaces"


@dataclass(frozen=True)
class Outcome:
    """What a plan ended with: the winner, the gain that it claims, and what it cost."""

    winner: str | None
    claimed: float
    runs: int


Plan = Callable[[Engine], Outcome]


def tuner_plan(search: Search) -> Plan:
    """The tuner's own way, as a search space wants it."""

    def plan(engine: Engine) -> Outcome:
        study = Simulated(engine, search)
        decision = study.run()
        best = decision.best if decision.clear else None
        if best is None or best.decision.comparison is None:
            return Outcome(None, 0.0, engine.runs)
        claimed = best.decision.comparison.ratio - 1
        return Outcome(study.names[best.number], claimed, engine.runs)

    return plan


def fixed_plan(repeats: int, *, corrected: bool) -> Plan:
    """So many rounds over the baseline and every candidate, then a t test of the best one.

    Each round has an order of its own, and what differs between rounds is taken out.
    """

    def plan(engine: Engine) -> Outcome:
        names = [BASELINE, *engine.effects]
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


TUNER = "tuner, as it comes"
PLANS: dict[str, Plan] = {
    TUNER: tuner_plan(Search()),
    "1 run each, take the best": fixed_plan(1, corrected=False),
    "3 runs each, t test of the best": fixed_plan(3, corrected=False),
    "3 runs each, corrected t test": fixed_plan(3, corrected=True),
    "6 runs each, corrected t test": fixed_plan(6, corrected=True),
}


Truth = Callable[[np.random.Generator], dict[str, float]]


def nothing(count: int = CANDIDATES) -> Truth:
    """Every candidate is as good as the baseline."""
    return lambda _: {f"c{i}": 0.0 for i in range(count)}


def worse(count: int = CANDIDATES) -> Truth:
    """Every candidate is up to 30 % worse, or as good."""
    return lambda generator: {
        f"c{i}": min(0.0, generator.uniform(-0.3, 0.05)) for i in range(count)
    }


def one_of(effect: float, rest: Truth) -> Truth:
    """One candidate has a gain, the rest is as given."""

    def truth(generator: np.random.Generator) -> dict[str, float]:
        effects = rest(generator)
        effects[f"c{generator.integers(len(effects))}"] = math.log1p(effect)
        return effects

    return truth


SCENARIOS: dict[str, tuple[Truth, Machine]] = {
    "nothing to find, 2 % noise": (nothing(), Machine(sigma=0.02)),
    "nothing to find, 7 % noise": (nothing(), Machine(sigma=0.07)),
    "nothing to find, drift of 0.2 % a run": (nothing(), Machine(sigma=0.02, drift=-0.002)),
    "nothing to find, wandering machine": (nothing(), Machine(sigma=0.02, wander=0.01)),
    "nothing to find, heavy tails": (nothing(), Machine(sigma=0.02, tail=3.0)),
    "5 % among 29 as good as the baseline": (one_of(0.05, nothing()), Machine(sigma=0.02)),
    "5 % among 29 up to 30 % worse": (one_of(0.05, worse()), Machine(sigma=0.02)),
    "5 %, drift of 0.2 % a run": (one_of(0.05, worse()), Machine(sigma=0.02, drift=-0.002)),
    "5 %, heavy tails": (one_of(0.05, worse()), Machine(sigma=0.02, tail=3.0)),
    "2 % among 29 up to 30 % worse": (one_of(0.02, worse()), Machine(sigma=0.02)),
}


@dataclass(frozen=True)
class Share:
    """How a plan did over many studies.

    Attributes:
        false: Share of the studies that named a winner which is no gain.
        true: Share that named one which is.
        runs: Mean of the engine starts of a study.
        bias: Mean of what the plan says its winners gain, minus what they gain; None without any.
    """

    false: float
    true: float
    runs: float
    bias: float | None


def simulate(plan: Plan, truth: Truth, machine: Machine, studies: int, seed: int) -> Share:
    """Simulate studies."""
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
    bias = float(np.mean(claims)) if claims else None
    return Share(false / studies, true / studies, runs / studies, bias)


def rows(
    scenarios: Mapping[str, tuple[Truth, Machine]],
    plans: Mapping[str, Plan],
    studies: int,
    seed: int,
) -> Iterator[str]:
    """The table of every plan on every engine, line by line."""
    yield f"| {'engine':38} | {'plan':32} | false winner | true winner | runs | claim - truth |"
    yield f"|{'-' * 40}|{'-' * 34}|{'-' * 14}|{'-' * 13}|{'-' * 6}|{'-' * 15}|"
    for scenario, (truth, machine) in scenarios.items():
        for name, plan in plans.items():
            found = simulate(plan, truth, machine, studies, seed)
            bias = "-" if found.bias is None else f"{100 * found.bias:+.1f} %"
            yield (
                f"| {scenario:38} | {name:32} | {percent(found.false):>12} | "
                f"{percent(found.true):>11} | {found.runs:4.0f} | {bias:>13} |"
            )


def shipped(studies: int, seed: int) -> Iterator[str]:
    """The table of the search spaces that come with the tuner, each with as many candidates as it tries."""
    head = "".join(f" {name} found (runs) |" for name in ("5 %", "20 %"))
    yield f"| search space     | candidates | finalists | rounds | false winner (runs) |{head}"
    yield f"|{'-' * 18}|{'-' * 12}|{'-' * 11}|{'-' * 8}|{'-' * 21}|{'-' * 18}|{'-' * 19}|"
    for path in sorted(SPACES.glob("*.yaml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        search = Search.model_validate(document["search"])
        count = document["budget"]["trials"] - 1
        plan, machine = tuner_plan(search), Machine(sigma=0.02)
        null = simulate(plan, nothing(count), machine, studies, seed)
        small, large = (
            simulate(plan, one_of(gain, worse(count)), machine, studies, seed)
            for gain in (0.05, 0.2)
        )
        yield (
            f"| {path.stem:16} | {count:10} | {search.finalists.count:9} | "
            f"{search.finalists.rounds:6} | {percent(null.false):>14} ({null.runs:.0f}) | "
            f"{percent(small.true):>11} ({small.runs:.0f}) | {percent(large.true):>12} ({large.runs:.0f}) |"
        )


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tuner", action="store_true", help="only the tuner's own way")
    parser.add_argument("--shipped", action="store_true", help="the search spaces' own settings")
    arguments = parser.parse_args()
    studies, seed = arguments.studies, arguments.seed
    plans = {name: PLANS[name] for name in PLANS if not arguments.tuner or name == TUNER}
    table = shipped(studies, seed) if arguments.shipped else rows(SCENARIOS, plans, studies, seed)
    for line in table:
        print(line, flush=True)
    upper = float(stats.beta.ppf(0.95, 0.05 * studies + 1, 0.95 * studies))
    print(f"\n{studies} studies a line; 5 % seen could be {100 * upper:.1f} % in truth")


if __name__ == "__main__":
    main()

"""Which point is tried next: Optuna, asked and told.

Optuna's study lives in memory only. It is rebuilt from the ledger's told trials whenever a tuner
starts, so there is no second truth that could disagree. Each ask gets a sampler of its own, seeded
by the study's seed and the trial's number: what is suggested depends on what was told before and
on nothing else, so a study that was killed and resumed goes on as if it never had been.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import Trial, TrialState, create_trial

from tuner.search.keys import key
from tuner.search.slope import fit
from tuner.spec.axes import Assignment, Axis

_TRIES = 30

MEMORY = 600
"""Trials that the sampler remembers, at least, of a history that is longer."""
_BEST = 150
"""How many of them are the best ones, however old."""
_FRESH = 150
"""Trials after which the remembered ones are chosen anew."""

optuna.logging.set_verbosity(optuna.logging.ERROR)


@dataclass(frozen=True, slots=True)
class Told:
    """A trial that is over, as the sampler learns it.

    Attributes:
        assignment: The point that ran, on the sampler's axes.
        value: The objective, higher is better; finite, also for a trial that failed.
        constraints: Violations by name, always the same names; at most 0 is feasible.
        ended_early: Whether it was ended early; its value is then an estimate.
    """

    assignment: Assignment
    value: float
    constraints: Mapping[str, float]
    ended_early: bool = False


class Sampler:
    """Suggests points and learns from what became of them.

    Args:
        axes: What there is to choose, conditions before those that depend on them.
        kind: ``tpe``, ``random``, or ``grid`` for every point in order.
        seed: The study's seed.
        startup: Trials before TPE trusts what it has learnt.
    """

    def __init__(self, axes: Sequence[Axis], *, kind: str, seed: int, startup: int) -> None:
        self._axes = tuple(axes)
        self._kind = kind
        self._seed = seed
        self._startup = startup
        self._study = optuna.create_study(direction="maximize", sampler=RandomSampler(seed=seed))
        self._asked: dict[str, Trial] = {}
        self._history: list[Told] = []
        self._lessons: list[tuple[Assignment, Mapping[str, float]]] = []

    def restore(self, history: Sequence[Told]) -> None:
        """Learn all that an earlier tuner was told."""
        self._history += history
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget all but what is worth remembering."""
        self._study = optuna.create_study(
            direction="maximize", sampler=RandomSampler(seed=self._seed)
        )
        self._asked.clear()
        kept = remembered(self._history)
        self._study.add_trials([finished(self._axes, told) for told in kept])
        self._lessons = [(told.assignment, told.constraints) for told in kept]

    def ask(self, number: int, taken: AbstractSet[str]) -> Assignment | None:
        """A point that was not tried yet, or None when none was found.

        Args:
            number: Number of the trial that it is for.
            taken: Keys (:func:`key`) of the points that were tried.
        """
        if self._kind != "grid":
            found = self._best_candidate(number, taken)
            if found is not None:
                return found
        return next((a for a in self._all_points() if key(a) not in taken), None)

    def draw(self, number: int, taken: AbstractSet[str], count: int) -> list[Assignment]:
        """Several points for one trial, to choose from; the sampler itself forgets them.

        What is drawn depends on what was told and on the number, as for :meth:`ask`, and not on
        what was drawn before. Fewer are found where the space has no more.

        Args:
            number: Number of the trial that they are for.
            taken: Keys of the points that were tried or drawn.
            count: How many are wanted.
        """
        found: list[Assignment] = []
        known = set(taken)
        for place in range(count):
            drawn = self._best_candidate(number, known, place) if self._kind != "grid" else None
            if drawn is None:
                return found + self.rest(known, count - place)
            self._study.tell(self._asked.pop(key(drawn)), state=TrialState.FAIL)
            found.append(drawn)
            known.add(key(drawn))
        return found

    def rest(self, taken: AbstractSet[str], most: int) -> list[Assignment]:
        """The first points of a finite space, in order, that were not tried; none of an endless one."""
        return list(islice((a for a in self._all_points() if key(a) not in taken), most))

    def _best_candidate(
        self, number: int, taken: AbstractSet[str], *place: int
    ) -> Assignment | None:
        """The first new suggestion that is expected to be feasible, else the least infeasible one."""
        # Chance alone is asked for chance alone: it must not depend on what was measured.
        slope = fit(self._axes, self._lessons if self._kind == "tpe" else ())
        candidates: list[tuple[float, Trial, Assignment]] = []
        for attempt in range(_TRIES):
            # A sampler that has settled suggests the same point again; then chance decides.
            kind = self._kind if attempt < _TRIES // 2 else "random"
            self._study.sampler = self._sampler(kind, number, attempt, *place)
            trial = self._study.ask()
            assignment = self._suggest(trial)
            if key(assignment) in taken:
                self._study.tell(trial, state=TrialState.FAIL)  # samplers do not see failed trials
                continue
            candidates.append((slope.worst(assignment), trial, assignment))
            if candidates[-1][0] <= 0:
                break
        if not candidates:
            return None
        _, chosen, assignment = min(candidates, key=lambda c: c[0])
        for _, trial, _ in candidates:
            if trial is not chosen:
                self._study.tell(trial, state=TrialState.FAIL)
        self._asked[key(assignment)] = chosen
        return assignment

    def tell(self, told: Told) -> None:
        """Learn one more trial. A point that was never asked for is added all the same."""
        self._history.append(told)
        if len(self._lessons) >= MEMORY + _FRESH:
            self._begin_anew()
            return
        self._lessons.append((told.assignment, told.constraints))
        trial = self._asked.pop(key(told.assignment), None)
        if trial is None:
            self._study.add_trial(finished(self._axes, told))
            return
        for name, violation in told.constraints.items():
            trial.set_constraint(name, violation)
        if not told.ended_early:
            self._study.tell(trial, told.value)
            return
        trial.report(told.value, 0)
        self._study.tell(trial, state=TrialState.PRUNED)

    def _sampler(self, kind: str, *place: int) -> BaseSampler:
        seed = _mix(self._seed, *place)
        if kind == "random":
            return RandomSampler(seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return TPESampler(
                n_startup_trials=self._startup,
                seed=seed,
                multivariate=True,
                group=True,
                constant_liar=False,
            )

    def _suggest(self, trial: Trial) -> Assignment:
        chosen: dict[str, int | float] = {}
        for axis in self._axes:
            if not axis.active(chosen):
                continue
            chosen[axis.name] = _suggest(trial, axis)
        return chosen

    def _all_points(self) -> Iterator[Assignment]:
        """Every point of a finite space, in order; nothing for one that has an endless axis."""
        yield from _product(self._axes, {})


def remembered(history: Sequence[Told]) -> list[Told]:
    """What of a long history the sampler works with: the best, and the newest of the others.

    TPE compares the best 25 trials with all others, and its time grows with their number; several
    hundred of them say as much as ten thousand. The answer depends on the history alone, and it changes
    all at once every so often, so that a study that was resumed goes on as if it never had stopped.
    """
    if len(history) <= MEMORY + _FRESH:
        return list(history)
    edge = MEMORY + (len(history) - MEMORY - 1) // _FRESH * _FRESH
    ranked = sorted(range(edge), key=lambda place: _merit(history[place]))
    best = set(ranked[:_BEST])
    others = [place for place in range(edge) if place not in best][-(MEMORY - _BEST) :]
    return [history[place] for place in sorted({*best, *others})] + list(history[edge:])


def _merit(told: Told) -> tuple[float, float]:
    """What trials are ranked by: how little they violate, then their value."""
    violation = sum(max(0.0, v) for v in told.constraints.values())
    return (violation, -told.value)


def finished(axes: Sequence[Axis], told: Told) -> optuna.trial.FrozenTrial:
    """A told trial as Optuna keeps it."""
    by_name = {axis.name: axis for axis in axes}
    return create_trial(
        state=TrialState.PRUNED if told.ended_early else TrialState.COMPLETE,
        value=told.value,
        intermediate_values={0: told.value} if told.ended_early else {},
        params=dict(told.assignment),
        distributions={name: _distribution(by_name[name]) for name in told.assignment},
        constraints=dict(told.constraints),
    )


def _product(axes: Sequence[Axis], chosen: dict[str, int | float]) -> Iterator[Assignment]:
    if not axes:
        yield dict(chosen)
        return
    axis, rest = axes[0], axes[1:]
    if not axis.active(chosen):
        yield from _product(rest, chosen)
        return
    for value in axis.values():
        yield from _product(rest, {**chosen, axis.name: value})


def _distribution(axis: Axis) -> BaseDistribution:
    match axis.kind:
        case "categorical":
            return CategoricalDistribution(tuple(range(int(axis.high) + 1)))
        case "ordinal" | "integer":
            return IntDistribution(
                int(axis.low), int(axis.high), log=axis.log, step=int(axis.step or 1)
            )
        case _:
            return FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)


def _suggest(trial: Trial, axis: Axis) -> int | float:
    distribution = _distribution(axis)
    if isinstance(distribution, CategoricalDistribution):
        return int(trial.suggest_categorical(axis.name, distribution.choices))  # type: ignore[arg-type]
    if isinstance(distribution, IntDistribution):
        low, high, step = distribution.low, distribution.high, distribution.step
        return trial.suggest_int(axis.name, low, high, step=step, log=distribution.log)
    return trial.suggest_float(axis.name, axis.low, axis.high, step=axis.step, log=axis.log)


def _mix(*parts: int) -> int:
    """One seed from several numbers; neighbours give seeds that have nothing in common."""
    raw = hashlib.sha256(",".join(map(str, parts)).encode()).digest()
    return int.from_bytes(raw[:4], "big")

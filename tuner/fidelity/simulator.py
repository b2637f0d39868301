"""The step simulator as a proxy: it predicts what it can know, and abstains from the rest.

It is fitted on the stack in hand, from step records of one or two real starts or from whole trials.
Of layouts, kernel variants and settings that no fit has seen it says nothing; nor of loads whose
steps lie mostly outside what was seen. A configuration that cannot serve a single request is an
error (:class:`~tuner.fidelity.blocks.PoolTooSmall`) and no small number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tuner.fidelity.asked import Asked
from tuner.fidelity.rank import Floats
from tuner.fidelity.simulate import Scheduler, Simulated, Step, simulate
from tuner.fidelity.steptime import (
    Batch,
    Setting,
    StepModel,
    StepRecord,
    Terms,
    fit_steps,
    seen,
    solve,
)
from tuner.score.figures import figures
from tuner.score.measure import measure
from tuner.score.objective import WEIGHTED, Objective
from tuner.score.official import PUBLISHED, Weights

_BLOCKS = 15_000
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration as the simulator sees it.

    Attributes:
        setting: What decides how steps run.
        scheduler: What decides which sequences share them.
        other: Everything else that is varied, by name: the simulator has no model of it and must
            have seen each of its values.
    """

    setting: Setting
    scheduler: Scheduler
    other: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a candidate would come to.

    Attributes:
        result: The simulated load.
        coverage: Part of the step time that was spent in states that the fit has seen.
        score: The score, by the objective that was asked for.
    """

    result: Simulated
    coverage: float
    score: float


@dataclass(frozen=True, slots=True)
class Abstention:
    """That the simulator says nothing of a candidate, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class TrialResult:
    """A real trial: its configuration, and the seconds that its load took."""

    candidate: Candidate
    wall_s: float


class Simulator:
    """A proxy made of step models.

    Args:
        models: A model for each layout and kernel variant.
        axes: The values that were seen of each setting that has no model.
        least_coverage: The coverage below which it abstains.
    """

    def __init__(
        self,
        models: Sequence[StepModel],
        axes: Mapping[str, frozenset[str]],
        *,
        least_coverage: float = 0.5,
    ) -> None:
        self._models = {(m.setting.layout, m.setting.variant): m for m in models}
        self._axes = dict(axes)
        self._least = least_coverage

    @property
    def models(self) -> list[StepModel]:
        """The models, one a layout and kernel variant."""
        return list(self._models.values())

    def predict(
        self,
        candidate: Candidate,
        load: Asked,
        *,
        weights: Weights = PUBLISHED,
        objective: Objective = WEIGHTED,
    ) -> Prediction | Abstention:
        """What a candidate would come to.

        Args:
            candidate: The configuration.
            load: The load.
            weights: The weights of the weighted score.
            objective: What the score is.

        Raises:
            PoolTooSmall: When it could not serve the load at all.
        """
        model = self._model(candidate)
        if isinstance(model, Abstention):
            return model
        result = simulate(load, coarsened(load, candidate.scheduler), model)
        covered = coverage(result, model)
        if covered < self._least:
            return Abstention(f"{1 - covered:.0%} of its steps are unlike any that were seen")
        metrics = measure(result.records, wall_s=result.wall_s, limits=objective.limits)
        score = objective.score(figures(metrics, weights))
        if score is None:
            return Abstention("the load has no score")
        return Prediction(result, covered, score)

    def _model(self, candidate: Candidate) -> StepModel | Abstention:
        setting = candidate.setting
        model = self._models.get((setting.layout, setting.variant))
        if model is None:
            return Abstention(
                f"layout {setting.layout!r} with variant {setting.variant!r} was never seen"
            )
        if model.setting != setting:
            return Abstention(f"layout {setting.layout!r} was seen with other settings")
        for name, value in candidate.other.items():
            if value not in self._axes.get(name, frozenset()):
                return Abstention(f"{name}={value} was never seen")
        return model


def from_steps(
    records: Mapping[Setting, Sequence[StepRecord]], axes: Mapping[str, frozenset[str]]
) -> Simulator:
    """Fit a simulator to step records.

    Args:
        records: Steps of each layout and kernel variant.
        axes: The values of other settings with which these were recorded.
    """
    return Simulator([fit_steps(setting, steps) for setting, steps in records.items()], axes)


def from_trials(trials: Sequence[TrialResult], load: Asked) -> Simulator:
    """Fit a simulator to whole trials of one load.

    Which steps a trial consists of hangs on how long they take, if only a little: so steps are
    simulated with a first guess, the guess is fitted to the trials, and so on a few times.

    Args:
        trials: The trials; those of one layout and kernel variant are fitted together.
        load: The load that all of them served.
    """
    groups: dict[Setting, list[TrialResult]] = {}
    axes: dict[str, frozenset[str]] = {}
    for trial in trials:
        groups.setdefault(trial.candidate.setting, []).append(trial)
        for name, value in trial.candidate.other.items():
            axes[name] = axes.get(name, frozenset()) | {value}
    return Simulator([_fit_group(setting, group, load) for setting, group in groups.items()], axes)


def _fit_group(setting: Setting, trials: Sequence[TrialResult], load: Asked) -> StepModel:
    model = StepModel(setting, {"decode step": 0.01, "mixed step": 0.01, "eager step": 0.01})
    terms = Terms(setting)
    batches: list[Batch] = []
    for _ in range(_ROUNDS):
        served = [
            simulate(load, coarsened(load, trial.candidate.scheduler), model) for trial in trials
        ]
        rows = np.array([total_terms(result, terms) for result in served])
        busy = np.array(
            [
                max(t.wall_s - idle(result), 0.01 * t.wall_s)
                for t, result in zip(trials, served, strict=True)
            ]
        )
        batches = [step.batch for result in served for step in result.steps]
        model = StepModel(setting, solve(rows, busy), seen(batches))
    return model


def idle(result: Simulated) -> float:
    """Seconds of a load in which no step ran, because users were thinking."""
    return result.wall_s - sum(step.seconds for step in result.steps)


def total_terms(result: Simulated, terms: Terms) -> Floats:
    """The terms of all steps of a load, added up."""
    total = np.zeros(len(terms.of(Batch(0, 0.0, 0, 0))))
    for step in result.steps:
        total += np.array(terms.of(_middle(step))) * step.count
    return total


def _middle(step: Step) -> Batch:
    """The batch half-way through steps that were alike, whose KV tokens are their mean."""
    batch = step.batch
    if step.count == 1:
        return batch
    mean = batch.kv_tokens + batch.decode_seqs * (step.count - 1) / 2
    return batch._replace(kv_tokens=mean)


def coverage(result: Simulated, model: StepModel) -> float:
    """Part of the step time in states that a model has seen; 1 for one written by hand."""
    if model.seen is None:
        return 1.0
    total = sum(step.seconds for step in result.steps)
    seen_s = sum(step.seconds for step in result.steps if model.seen.covers(step.batch))
    return seen_s / total if total else 1.0


def coarsened(load: Asked, scheduler: Scheduler) -> Scheduler:
    """The same pool in larger blocks, where a load has so many that counting them takes long.

    What is lost is the end of each sequence that does not fill a block, at most one block each.
    """
    blocks = 0
    for turns in load.sessions:
        length = 0
        for turn in turns:
            length += sum(part.tokens for part in turn.added)
            blocks += length // scheduler.block_tokens
            length += turn.output if load.threaded else 0
    longest = load.longest()
    # Blocks stay small beside a sequence, and a pool that holds the longest one still does.
    factor = min(-(-blocks // _BLOCKS), longest // (16 * scheduler.block_tokens))
    while factor > 1 and not _holds(longest, scheduler, factor):
        factor -= 1
    if factor <= 1:
        return scheduler
    return replace(
        scheduler,
        blocks=scheduler.blocks // factor,
        block_tokens=scheduler.block_tokens * factor,
    )


def _holds(tokens: int, scheduler: Scheduler, factor: int) -> bool:
    return -(-tokens // (scheduler.block_tokens * factor)) <= scheduler.blocks // factor

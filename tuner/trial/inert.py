"""Parameters that did nothing: by the engine's own counts where they tell, else by their effect.

An engine tells much: no step had a number of tokens that a limit would have parted otherwise, all
tokens together would have fitted into the smaller cache, graphs are off. Where it does not, trials
that differ in the parameter alone are compared. Either way the baseline's value does as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.score.inert import Effect, ParameterEffect, parameter_effect
from tuner.score.noise import Noise
from tuner.spec import SearchSpace
from tuner.spec.deployment import Deployment
from tuner.spec.parameter import Parameter
from tuner.store.rows import Origin, TrialRow
from tuner.trial.exercise import Exercise
from tuner.verdict.compare import parse_argv

_KV_ENV = frozenset({"VLLM_CPU_KVCACHE_SPACE"})
_KV_FLAGS = frozenset(
    {"--kv-cache-memory-bytes", "--gpu-memory-utilization", "--num-gpu-blocks-override"}
)
_GRAPH_FLAGS = frozenset(
    {
        "--max-seq-len-to-capture",
        "--max-cudagraph-capture-size",
        "--cudagraph-capture-sizes",
        "--cuda-graph-sizes",
    }
)
_NATIVE = "native"
_KNOWN_NOISE = 3
"""Degrees of freedom from which an effect inside the noise may be called small."""


@dataclass(frozen=True, slots=True)
class Inert:
    """A parameter whose value makes no difference at a point.

    Attributes:
        name: The parameter.
        value: Its value at the point.
        baseline: The baseline's value.
        reason: Why it makes none.
        told: Whether the engine's own counts say so; else its effect does.
    """

    name: str
    value: Any
    baseline: Any
    reason: str
    told: bool

    def as_json(self) -> dict[str, Any]:
        """The finding as JSON-ready data."""
        return {
            "name": self.name,
            "value": self.value,
            "baseline": self.baseline,
            "reason": self.reason,
            "told": self.told,
        }


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a trial's engine.

    Attributes:
        params: The trial's point.
        exercise: The engine's counts.
        eager: Whether graphs were off.
        kv_tokens: Tokens that fit into its cache; None where it did not say.
    """

    params: Mapping[str, Any]
    exercise: Exercise
    eager: bool
    kv_tokens: int | None


def seen(trial: TrialRow, readbacks: Mapping[int, Mapping[str, Any]]) -> Seen | None:
    """What is known of a measured trial; None for any other.

    Args:
        trial: The trial.
        readbacks: What each trial's engine said it runs with, by number.
    """
    counts = (trial.metrics or {}).get("exercise")
    if counts is None:
        return None
    argv = parse_argv(Deployment.from_json(trial.deployment).argv)
    return Seen(
        params=trial.params,
        exercise=Exercise.from_json(counts),
        eager=argv.get("enforce_eager") is True,
        kv_tokens=readbacks.get(trial.number, {}).get("kv_tokens"),
    )


def inert_parameters(
    space: SearchSpace,
    trial: Seen,
    baseline: Seen,
    effects: Mapping[str, ParameterEffect],
    noise: Noise | None,
) -> list[Inert]:
    """The parameters of a trial that could as well have the baseline's values.

    Args:
        space: The search space.
        trial: The trial.
        baseline: The baseline.
        effects: What the values of each parameter do to the score, where that is known.
        noise: The study's noise.
    """
    found = []
    for name, value in trial.params.items():
        if name not in baseline.params or baseline.params[name] == value:
            continue
        other = baseline.params[name]
        reason = _told(space, space.parameters[name], value, other, trial, baseline)
        if reason is not None:
            found.append(Inert(name, value, other, reason, told=True))
        elif name in effects and (reason := _small(effects[name], noise)) is not None:
            found.append(Inert(name, value, other, reason, told=False))
    return found


def _small(effect: ParameterEffect, noise: Noise | None) -> str | None:
    """Why an effect is none; a small study's noise is known too badly to say so."""
    sure = effect.effect is Effect.INERT
    known = noise is not None and noise.df >= _KNOWN_NOISE
    if sure or (effect.effect is Effect.INSIDE_NOISE and known):
        return str(effect)
    return None


def effects_of(
    space: SearchSpace, trials: Sequence[TrialRow], noise: Noise | None
) -> dict[str, ParameterEffect]:
    """The effect of each parameter on the score, over all feasible trials and their repeats."""
    if noise is None or noise.sigma == 0:
        return {}
    rows = [(t.params, t.score) for t in trials if t.feasible and t.score and _counts(t)]
    tolerance = space.search.repeats.worthwhile
    if tolerance == 0:
        return {}
    return {
        name: parameter_effect([(p, s) for p, s in rows if s], name, noise, tolerance=tolerance)
        for name in space.parameters
    }


def _counts(trial: TrialRow) -> bool:
    return trial.origin is not Origin.REPEAT or trial.block is None


# --- what the engine tells -----------------------------------------------------------------------


def _told(
    space: SearchSpace,
    parameter: Parameter,
    value: Any,
    other: Any,
    trial: Seen,
    baseline: Seen,
) -> str | None:
    """Why the engine's own counts say that a value did nothing; None where they do not."""
    if parameter.env == "ENGINEX_MOE_TINY_IMPL":
        return None if value == _NATIVE else _no_small_step(trial.exercise)
    if parameter.flag in _GRAPH_FLAGS:
        return "graphs are off (--enforce-eager), so none is captured" if trial.eager else None
    if parameter.env in _KV_ENV or parameter.flag in _KV_FLAGS:
        return _all_fits(trial, baseline)
    if parameter.flag == "--swap-space":
        none = trial.exercise.preemptions == 0 and baseline.exercise.preemptions == 0
        return "no request was preempted, so nothing was swapped" if none else None
    if not _whole(value) or not _whole(other):
        return None
    return _limits(space, parameter, min(value, other), max(value, other), trial.exercise)


def _limits(
    space: SearchSpace, parameter: Parameter, low: int, high: int, exercise: Exercise
) -> str | None:
    """Whether a limit of either size would have cut nothing."""
    if parameter.env == "ENGINEX_MOE_TINY_MAX":
        if not exercise.steps or exercise.any_step(low, high):
            return None
        return f"no step had more than {low} and at most {high} tokens"
    if parameter.flag == "--max-num-batched-tokens":
        if exercise.largest is None or exercise.largest >= low:
            return None
        return f"no step had more than {exercise.largest} tokens"
    if parameter.flag == "--max-num-seqs":
        # An open loop without a limit has as many under way as come.
        most = max(load.workload.facts().get("concurrency", math.inf) for load in space.loads)
        if most > low:
            return None
        return f"at most {most} requests were under way at once"
    return None


def _no_small_step(exercise: Exercise) -> str | None:
    if exercise.variant_steps != 0 or not exercise.steps:
        return None
    return "no step was small enough for the variant, so the engine's own kernel computed all"


def _all_fits(trial: Seen, baseline: Seen) -> str | None:
    """Whether all tokens together would have fitted into the smaller of both caches."""
    room = [seen.kv_tokens for seen in (trial, baseline)]
    tokens = trial.exercise.tokens
    if tokens is None or trial.exercise.preemptions != 0:
        return None
    least = min((count for count in room if count is not None), default=0)
    if None in room or tokens > least:
        return None
    return f"all {tokens:,} tokens of the trial together fit into the smaller cache ({least:,})"


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

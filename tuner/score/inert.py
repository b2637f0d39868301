"""Inert parameters: those whose values make no difference that the study can see.

Trials that agree in every other parameter are compared; what they have in common is taken out, and
the differences between the parameter's values are held against the study's own noise. Two answers
are kept apart: an effect larger than a tolerance is excluded, or there is merely none to be seen.
Either way there is no reason to leave the baseline's value.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.score.distribution import Floats
from tuner.score.noise import Noise, logs


class Effect(enum.StrEnum):
    """What a parameter does to a figure."""

    SEEN = "effect"  # two of its values differ by more than chance allows
    INSIDE_NOISE = "inside the noise"  # no difference is seen, and a small one may be hidden
    INERT = "inert"  # any difference is below the tolerance
    NOT_COMPARED = "not compared"  # no two trials differ in this parameter alone


@dataclass(frozen=True, slots=True)
class ParameterEffect:
    """A parameter's effect on a figure.

    Attributes:
        effect: What can be said.
        largest: The largest ratio between two values, minus 1: 0.018 is 1.8 %. None where nothing
            was compared.
        possible: The largest that it may be in truth, by the noise; None where nothing was compared.
        trials: How many trials were compared.
    """

    effect: Effect
    largest: float | None
    possible: float | None
    trials: int

    @property
    def keeps_baseline(self) -> bool:
        """Whether the export should keep the baseline's value."""
        return self.effect is not Effect.SEEN

    def __str__(self) -> str:
        if self.largest is None or self.possible is None:
            return f"{self.effect}: no two trials differ in it alone"
        return (
            f"{self.effect}: its values differ by {100 * self.largest:.1f} % at most, by the noise "
            f"up to {100 * self.possible:.1f} % ({self.trials} trials)"
        )


def parameter_effect(
    trials: Sequence[tuple[Mapping[str, Any], float]],
    parameter: str,
    noise: Noise,
    *,
    tolerance: float = 0.02,
    error: float = 0.05,
) -> ParameterEffect:
    """Whether the values of one parameter make a difference.

    Args:
        trials: The parameters and the figure of each measured trial; a trial that was repeated
            comes as often. A parameter that does not apply is left out of its mapping.
        parameter: The parameter in question.
        noise: The study's own noise.
        tolerance: A difference that would not matter: 0.02 is 2 %.
        error: Chance to see an effect that is not there, over all pairs of values.

    Raises:
        ValueError: When a figure is not above 0.
    """
    chosen = _comparable(trials, parameter)
    if not chosen:
        return ParameterEffect(Effect.NOT_COMPARED, None, None, 0)
    design, values = _design(chosen)
    inverse = np.linalg.pinv(design).astype(np.float64)
    level = inverse @ logs([figure for _, _, figure in chosen])
    contrasts = list(_contrasts(design, inverse, len(values)))
    share = error / 2 / len(contrasts)
    seen, largest, possible = False, 0.0, 0.0
    for contrast in contrasts:
        difference = abs(float(contrast @ level))
        spread = float(np.linalg.norm(contrast @ inverse))
        reach = noise.bound(share, 1) * spread
        seen = seen or difference > reach
        largest = max(largest, difference)
        possible = max(possible, difference + reach)
    effect = Effect.INSIDE_NOISE
    if seen:
        effect = Effect.SEEN
    elif possible <= math.log1p(tolerance):
        effect = Effect.INERT
    return ParameterEffect(effect, math.expm1(largest), math.expm1(possible), len(chosen))


_Trial = tuple[str, str, float]
"""What the trial has beside the parameter, the parameter's value, and the figure."""


def _comparable(trials: Sequence[tuple[Mapping[str, Any], float]], parameter: str) -> list[_Trial]:
    """The trials that have a partner which differs in this parameter alone."""
    rows = [
        (repr(sorted((k, repr(v)) for k, v in p.items() if k != parameter)), repr(p[parameter]), y)
        for p, y in trials
        if parameter in p
    ]
    found: dict[str, set[str]] = {}
    for rest, value, _ in rows:
        found.setdefault(rest, set()).add(value)
    return [row for row in rows if len(found[row[0]]) > 1]


def _design(chosen: Sequence[_Trial]) -> tuple[Floats, list[str]]:
    """Columns for the parameter's values, then for what the trials have in common."""
    values = sorted({value for _, value, _ in chosen})
    strata = sorted({rest for rest, _, _ in chosen})
    columns = [[float(value == v) for _, value, _ in chosen] for v in values]
    columns += [[float(rest == s) for rest, _, _ in chosen] for s in strata]
    return np.array(columns).T, values


def _contrasts(design: Floats, inverse: Floats, values: int) -> list[Floats]:
    """Differences of two values that the trials can tell: those that the design determines."""
    determined = inverse @ design
    found = []
    for one, other in itertools.combinations(range(values), 2):
        contrast = np.zeros(design.shape[1])
        contrast[one], contrast[other] = 1.0, -1.0
        if np.allclose(contrast @ determined, contrast, atol=1e-8):
            found.append(contrast)
    return found

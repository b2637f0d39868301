"""A finalist without what did nothing: parameters that are inert at it go back to the baseline's value.

The simpler point is a trial of its own: it is run, examined and told like any other, and it is the
one that is measured against the baseline and exported. So nothing is exported that did not run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.errors import SpaceError
from tuner.score.noise import Noise, logs
from tuner.spec import Context, SearchSpace, violations
from tuner.spec.points import completed
from tuner.store.rows import TrialRow
from tuner.trial.inert import Inert, Seen, effects_of, inert_parameters
from tuner.trial.repeats import runs_of, study_noise

SIMPLER = "simpler"
"""The event that says which point a finalist is without what did nothing."""


_MISREAD = math.log(1.1)
"""By how much, on the log scale, a point may fall behind one that its engine calls the same."""


@dataclass(frozen=True, slots=True)
class Simpler:
    """A finalist's point without what did nothing.

    Attributes:
        of: Number of the finalist.
        params: The simpler point.
        inert: What went back to the baseline's value, and why.
    """

    of: int
    params: Mapping[str, Any]
    inert: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        """The simpler point as JSON-ready data."""
        return {"of": self.of, "params": dict(self.params), "inert": list(self.inert)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Simpler:
        """The simpler point that :meth:`as_json` wrote."""
        return cls(data["of"], data["params"], tuple(data["inert"]))


def simpler(
    space: SearchSpace,
    context: Context,
    trials: Sequence[TrialRow],
    here: Seen | None,
    there: Seen | None,
    number: int,
) -> Simpler | None:
    """What a finalist is without what did nothing; None where everything does something.

    Args:
        space: The search space.
        context: What its expressions may name.
        trials: All trials of the study.
        here: What is known of the finalist's engine.
        there: What is known of the baseline's engine.
        number: The finalist.
    """
    if here is None or there is None:
        return None
    noise = study_noise(trials)
    found = inert_parameters(space, here, there, effects_of(space, trials, noise), noise)
    params, kept = _without(space, context, here.params, found)
    return Simpler(number, params, tuple(i.as_json() for i in kept)) if kept else None


def _without(
    space: SearchSpace, context: Context, params: Mapping[str, Any], found: Sequence[Inert]
) -> tuple[Mapping[str, Any], list[Inert]]:
    """The point with the baseline's values, one after the other, as far as the space allows it."""
    point = dict(params)
    kept: list[Inert] = []
    for inert in found:
        wanted = {**point, inert.name: inert.baseline}
        try:
            whole = completed(space, wanted, context)
        except SpaceError:
            continue  # a member of a group, or a parameter that others hang on
        if set(whole) == set(point) and not violations(space, whole, context):
            point, kept = dict(whole), [*kept, inert]
    return point, kept


def as_good(one: TrialRow, finalist: int, trials: Sequence[TrialRow], *, told: bool) -> bool:
    """Whether the simpler trial may stand for the finalist: feasible, and not clearly worse.

    Args:
        one: The simpler trial.
        finalist: Number of the finalist.
        trials: All trials of the study.
        told: Whether the engine itself told that nothing else changed. Then it need not be measured
            as good as the finalist, only not so much worse that the engine must have been misread.
    """
    if not one.feasible or not one.score:
        return False
    runs = runs_of(trials).get(finalist)
    if not runs:
        return True
    noise: Noise | None = study_noise(trials)
    below = float(logs(runs).mean()) - math.log(one.score)
    chance = 0.0 if noise is None else noise.bound(0.05, 1, len(runs))
    if told:
        return below <= max(chance, _MISREAD)
    return noise is not None and below <= chance

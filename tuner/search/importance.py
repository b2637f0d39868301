"""Which parameters decided over the score: PED-ANOVA over the trials that were told.

It asks how much the values of the best trials differ from those of all trials. A parameter that
the best trials take as the others do is not important, whatever it does elsewhere. It says nothing
about cause and effect, and little while few trials are told.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import optuna
from optuna.importance import PedAnovaImportanceEvaluator

from tuner.search.sampler import Told, finished
from tuner.spec.axes import Axis

FEWEST = 8
"""Told trials below which nothing is said."""

_BEST = 5
"""Trials that should at least count as the best ones, as the method's authors advise."""
_QUANTILE = 0.1


def importance(axes: Sequence[Axis], history: Sequence[Told]) -> dict[str, float]:
    """The share of each axis in what tells the best trials from the others, the largest first.

    A trial that broke a constraint counts as one of the worst, whatever its score.

    Args:
        axes: What there was to choose.
        history: What the sampler was told.

    Returns:
        Shares by axis, adding up to 1; nothing where too little was told or nothing tells them apart.
    """
    if len(history) < FEWEST or len({_worth(t) for t in history}) < 2:
        return {}
    study = optuna.create_study(direction="maximize")
    for told in history:
        plain = Told(told.assignment, _worth(told), {})
        study.add_trial(finished(axes, plain))
    quantile = min(0.5, max(_QUANTILE, _BEST / len(history)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the method is experimental, and that trials are few
        found = PedAnovaImportanceEvaluator(target_quantile=quantile).evaluate(study)
    total = sum(found.values())
    if total <= 0:
        return {}
    return {name: share / total for name, share in sorted(found.items(), key=lambda i: -i[1])}


def _worth(told: Told) -> float:
    feasible = all(violation <= 0 for violation in told.constraints.values())
    return told.value if feasible else min(0.0, told.value)

"""The official score.

Two forms of one formula, both over the tokens of successful requests and the wall time of the load:

* the published form, in tokens a second (the leaderboard's number)::

      weighted = 16.796 * output_tps + 2.799 * uncached_input_tps + 0.56 * cached_tps

* the platform's module score, in tokens a minute (the number in its log)::

      module_score = 10.8 * output_tpm + 1.8 * uncached_input_tpm + 0.36 * cached_tpm

Output TPS is the aggregate, input TPS counts uncached tokens only, and the two input terms are
disjoint. The weights of the two forms have nearly the same ratio (1.5552, 1.5550, 1.5556), so
``weighted`` is ``module_score / 60 * 1.5552`` to within 0.03 %.

Sources: the organiser's published formula; the platform's log lines of runs 655 and 694, which the
second form reproduces to the printed digits.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.score.metrics import Metrics

PUBLISHED_OVER_MODULE = 1.5552 / 60
"""The published score over the module score, the platform's own rounding."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What a token a second of each kind is worth.

    Attributes:
        output: For each output token.
        uncached_input: For each prompt token that had to be computed.
        cached: For each prompt token that came from the prefix cache.
    """

    output: float
    uncached_input: float
    cached: float

    def apply(self, output: float, uncached_input: float, cached: float) -> float:
        """The weighted sum of three rates, all in tokens a second or all in tokens a minute."""
        return self.output * output + self.uncached_input * uncached_input + self.cached * cached


PUBLISHED = Weights(output=16.796, uncached_input=2.799, cached=0.56)
"""Weights of the published form, for tokens a second."""

MODULE = Weights(output=10.8, uncached_input=1.8, cached=0.36)
"""Weights of the platform's module score, for tokens a minute."""


def weighted(metrics: Metrics, weights: Weights = PUBLISHED) -> float | None:
    """The weighted score; None where one of its three rates could not be had."""
    rates = (metrics.output_tps, metrics.uncached_input_tps, metrics.cached_tps)
    if rates[0] is None or rates[1] is None or rates[2] is None:
        return None
    return weights.apply(rates[0], rates[1], rates[2])


def module_score(metrics: Metrics) -> float | None:
    """The platform's module score; None where one of its three rates could not be had."""
    minute = weighted(metrics, MODULE)
    return None if minute is None else 60 * minute

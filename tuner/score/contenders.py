"""Which trials of a search are worth another run, and which are not.

A repeat costs as much as a new trial, so a trial is repeated only while that can change which
trials become finalists. A trial is out as soon as it is clearly no gain over the baseline, or
clearly behind the finalists; what is left is repeated, all of it equally often, until the finalists
are found or the repeats are used up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.score.figures import Better
from tuner.score.noise import Noise, logs


@dataclass(frozen=True, slots=True)
class Selection:
    """How finalists are chosen.

    Attributes:
        finalists: How many finalists there may be.
        worthwhile: The smallest gain over the baseline that matters: 0.02 is 2 %.
        miss: Chance, each time, to drop a trial that does not deserve it. It is the price in missed
            gains, and never makes a false winner: that is the confirmation's business.
        most: The most runs that a trial gets here.
        better: Which way the figure is better.
    """

    finalists: int = 3
    worthwhile: float = 0.02
    miss: float = 0.05
    most: int = 3
    better: Better = "higher"


@dataclass(frozen=True, slots=True)
class Contenders:
    """The trials that can still become the winner.

    Attributes:
        kept: The trials still in it, best first.
        repeat: Those of them to run again now; empty when the finalists are known.
        dropped: For each trial that is out, why.
        finalists: The best of those kept, at most as many as asked for.
    """

    kept: tuple[str, ...]
    repeat: tuple[str, ...]
    dropped: Mapping[str, str]
    finalists: tuple[str, ...]


def contenders(
    trials: Mapping[str, Sequence[float]],
    baseline: Sequence[float],
    noise: Noise,
    selection: Selection,
) -> Contenders:
    """Sort out the trials of a search.

    Args:
        trials: For each feasible trial its measurements so far, at least one, without the baseline.
        baseline: The baseline's measurements.
        noise: The study's own noise, from A/A runs and repeats.
        selection: How finalists are chosen.

    Raises:
        ValueError: When a trial has no measurement, or one is not above 0.
    """
    sign = 1.0 if selection.better == "higher" else -1.0
    level = sign * float(logs(baseline).mean())
    means = {name: sign * float(logs(values).mean()) - level for name, values in trials.items()}
    runs = {name: len(values) for name, values in trials.items()}
    order = sorted(trials, key=lambda name: -means[name])
    dropped: dict[str, str] = {}
    goal = math.log1p(selection.worthwhile)
    for name in order:
        reach = noise.bound(selection.miss, runs[name], len(baseline))
        if means[name] + reach < goal:
            dropped[name] = (
                f"{100 * math.expm1(means[name]):+.1f} % from {runs[name]} "
                f"run{'s' if runs[name] > 1 else ''}: no gain of {100 * selection.worthwhile:g} %"
            )
    kept = [name for name in order if name not in dropped]
    if len(kept) > selection.finalists:
        last = kept[selection.finalists - 1]
        for name in kept[selection.finalists :]:
            reach = noise.bound(selection.miss, runs[name], runs[last])
            if means[name] + reach < means[last]:
                dropped[name] = f"clearly behind {selection.finalists} others"
        kept = [name for name in kept if name not in dropped]
    fewest = min((runs[name] for name in kept), default=selection.most)
    undecided = len(kept) > selection.finalists and fewest < selection.most
    return Contenders(
        kept=tuple(kept),
        repeat=tuple(n for n in kept if runs[n] == fewest) if undecided else (),
        dropped=dropped,
        finalists=tuple(kept[: selection.finalists]),
    )

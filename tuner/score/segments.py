"""Early stop: a trial that is clearly worse need not run to its end.

A workload falls into segments, its conversations, which are the same in every trial. So a trial
that is under way is compared with a reference trial segment by segment, each pair with its own
content, by Wilcoxon's signed-rank test.

Two kinds of chance must be told apart. The segments of one run differ by chance, and the test deals
with that. But all of them share the luck of their run: the same deployment started twice differs by
the study's noise, in every segment at once, and no number of segments shows it. So a trial counts
as clearly worse only when it is worse by more than two single runs differ by chance. Each of the
two gets half of the error, and the looks share theirs by Bonferroni's bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.load.record import Record
from tuner.score.columns import Columns, from_records
from tuner.score.distribution import Floats
from tuner.score.noise import Noise
from tuner.score.official import PUBLISHED, Weights


@dataclass(frozen=True, slots=True)
class Stop:
    """What a look at the segments says.

    Attributes:
        stop: Whether the trial is clearly worse.
        segments: How many segments the last look had.
        ratio: Median of candidate over reference among them; None before the first look.
        p: One-sided p value of that look, for a trial worse by no more than the margin.
        margin: The loss that chance allows between two single runs: 0.1 is 10 %.
    """

    stop: bool
    segments: int
    ratio: float | None
    p: float | None
    margin: float


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """When a trial is stopped.

    Attributes:
        noise: The study's noise between starts, from A/A runs.
        looks: After how many segments there is a look, ascending. A look at n segments can reach
            p = 2**-n at best, so one below 8 says nothing at the usual errors.
        error: Chance to stop a trial that is as good as its reference. It holds for a reference
            that was not chosen for its figure, such as the baseline; the best of many single runs
            had luck, and a trial that only equals it is stopped more often.

    Raises:
        ValueError: When the looks do not ascend or the error is out of range.
    """

    noise: Noise
    looks: tuple[int, ...] = (8, 16, 32, 64)
    error: float = 0.05

    def __post_init__(self) -> None:
        if not self.looks or list(self.looks) != sorted(set(self.looks)) or self.looks[0] < 1:
            raise ValueError("the looks must ascend and begin at 1 segment or later")
        if not 0 < self.error < 1:
            raise ValueError("the error is a chance between 0 and 1")

    def decide(self, ratios: Sequence[float] | Floats) -> Stop:
        """Whether to stop a trial after the segments so far.

        Args:
            ratios: Logarithm of candidate over reference for each segment, in the order in which
                the candidate finished them; higher is better.
        """
        margin = self.noise.bound(self.error / 2, 1, 1)
        level = self.error / 2 / len(self.looks)
        found = np.asarray(ratios, dtype=np.float64)
        last: tuple[int, float] | None = None
        for look in (look for look in self.looks if look <= found.size):
            p = _worse(found[:look] + margin)
            last = (look, p)
            if p <= level:
                break
        loss = -math.expm1(-margin)
        if last is None:
            return Stop(stop=False, segments=0, ratio=None, p=None, margin=loss)
        look, p = last
        ratio = math.exp(float(np.median(found[:look])))
        return Stop(stop=p <= level, segments=look, ratio=ratio, p=p, margin=loss)


def _worse(differences: Floats) -> float:
    """One-sided p value of the signed-rank test that the differences lie below 0."""
    if not differences.any():
        return 1.0
    from scipy import stats  # noqa: PLC0415 - a second's import, needed only here

    return float(stats.wilcoxon(differences, alternative="less").pvalue)


def segment_ratios(
    candidate: Sequence[Record] | Columns,
    reference: Sequence[Record] | Columns,
    weights: Weights = PUBLISHED,
) -> Floats:
    """Logarithm of candidate over reference for each conversation that both have whole.

    The figure of a conversation is the weighted tokens of its successes over the seconds that its
    requests were under way: at a given concurrency the score is the same figure over the whole
    load. A conversation counts when the candidate has finished the same turns as the reference and
    both have tokens and time.

    Args:
        candidate: Records so far of the trial that is under way.
        reference: Records of the whole reference trial.
        weights: What a token is worth.

    Returns:
        The ratios in the order in which the candidate finished the conversations.
    """
    ours, theirs = _conversations(candidate, weights), _conversations(reference, weights)
    both = [
        (mine.finished, math.log(mine.rate / other.rate))
        for session, mine in ours.items()
        if (other := theirs.get(session)) is not None
        and mine.turns == other.turns
        and mine.rate > 0
        and other.rate > 0
    ]
    return np.array([ratio for _, ratio in sorted(both)], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Conversation:
    turns: tuple[int, ...]
    rate: float
    finished: float


def _conversations(
    records: Sequence[Record] | Columns, weights: Weights
) -> dict[int, _Conversation]:
    table = records if isinstance(records, Columns) else from_records(records)
    cached = np.nan_to_num(table.cached_tokens)
    uncached = np.clip(np.nan_to_num(table.prompt_tokens) - cached, 0, None)
    worth = weights.output * np.nan_to_num(table.output_tokens)
    worth += weights.uncached_input * uncached + weights.cached * cached
    worth[~table.ok] = 0.0
    known = table.session >= 0
    names, place = np.unique(table.session[known], return_inverse=True)
    worths = np.bincount(place, weights=worth[known], minlength=names.size)
    seconds = np.bincount(place, weights=table.e2e_s[known], minlength=names.size)
    finished = np.full(names.size, -np.inf)
    np.fmax.at(finished, place, table.end[known])
    order = np.lexsort((table.turn[known], place))
    turns = np.split(table.turn[known][order], np.cumsum(np.bincount(place))[:-1])
    return {
        int(name): _Conversation(
            tuple(turns[i].tolist()), float(worths[i] / seconds[i]), finished[i]
        )
        for i, name in enumerate(names)
        if seconds[i] > 0  # not so where a request is not over and its seconds are NaN
    }

"""The last word on a finalist: paired with the baseline until the answer is clear, and no longer.

The winner of a search is the best of many noisy figures, so its own figure is too good to be true
(the winner's curse). Only runs that are made after the choice count here. They are looked at after
2, 3, 4 … blocks, and each look, and each finalist, has its part of the error: Bonferroni's bound
holds whatever the looks have in common. So the whole study names a winner, where no finalist is
better than the baseline, with a chance of at most half the error, and a loser likewise.

A look that stops for want of a prospect never names a winner, and costs no error.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import special

from tuner.score.figures import Better
from tuner.score.paired import ABBA, Comparison, Finding, Run, compare


class Next(enum.StrEnum):
    """What to do after some runs."""

    GO_ON = "go on"  # measure another block
    BETTER = "better"  # the candidate beats the baseline
    WORSE = "worse"  # the baseline beats the candidate
    NO_CLEAR_WINNER = "no clear winner"  # and more blocks would hardly change that


@dataclass(frozen=True, slots=True)
class Decision:
    """What a confirmation says after the runs so far.

    Attributes:
        next: Go on, or the answer.
        comparison: The comparison with its interval, corrected for looks and finalists; None
            before the first look.
        prospect: Chance that the last look would find the candidate better, as things stand; None
            where it was not asked.
    """

    next: Next
    comparison: Comparison | None
    prospect: float | None = None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """How finalists are confirmed.

    Attributes:
        finalists: How many finalists are compared with the baseline.
        looks: After how many blocks the runs are looked at, ascending; the last one ends it.
        error: Chance over the whole study that an interval misses: 0.05 for 95 % intervals.
        worthwhile: The smallest gain that matters, 0.01 for 1 %. A candidate whose interval ends
            below it is not pursued.
        give_up: Chance of a good end below which no more blocks are measured.
        better: Which way the figure is better.

    Raises:
        ValueError: When a number is out of its range.
    """

    finalists: int = 1
    looks: tuple[int, ...] = (2, 3, 4, 6)
    error: float = 0.05
    worthwhile: float = 0.0
    give_up: float = 0.05
    better: Better = "higher"

    def __post_init__(self) -> None:
        if self.finalists < 1 or not 0 < self.error < 1 or not 0 <= self.give_up < 1:
            raise ValueError("a confirmation needs a finalist, and chances between 0 and 1")
        if not self.looks or list(self.looks) != sorted(set(self.looks)) or self.looks[0] < 1:
            raise ValueError("the looks must ascend and begin at 1 block or later")

    @property
    def confidence(self) -> float:
        """Confidence of each interval, so that all of them together keep ``1 - error``."""
        return 1 - self.error / (self.finalists * len(self.looks))

    def decide(self, runs: Sequence[Run]) -> Decision:
        """What to do after these runs of one finalist and the baseline.

        Only whole blocks are looked at, and only at the looks that were declared.

        Raises:
            ValueError: As :func:`tuner.score.paired.compare`.
        """
        blocks = len(runs) // len(ABBA)
        if blocks not in self.looks or len(runs) % len(ABBA):
            return Decision(Next.GO_ON, None)
        found = compare(runs, confidence=self.confidence, better=self.better)
        if found.finding is Finding.BETTER:
            return Decision(Next.BETTER, found)
        if found.finding is Finding.WORSE:
            return Decision(Next.WORSE, found)
        if blocks == self.looks[-1] or self._best(found) < math.log1p(self.worthwhile):
            return Decision(Next.NO_CLEAR_WINNER, found)
        prospect = self._prospect(found, blocks)
        go_on = prospect >= self.give_up
        return Decision(Next.GO_ON if go_on else Next.NO_CLEAR_WINNER, found, prospect)

    def _best(self, found: Comparison) -> float:
        """The largest gain that the interval allows, on the log scale."""
        return math.log(found.high) if self.better == "higher" else -math.log(found.low)

    def _prospect(self, found: Comparison, blocks: int) -> float:
        """Predictive chance that the last look finds the candidate better.

        With a flat prior, the mean after N blocks is spread about the mean after n by the standard
        deviation of one block times ``sqrt(1/n - 1/N)``; Student's t stands for the noise that is
        itself estimated.
        """
        last = self.looks[-1]
        gain = math.log(found.ratio) * (1 if self.better == "higher" else -1)
        if found.sigma == 0:
            return 1.0 if gain > 0 else 0.0
        needed = float(special.stdtrit(3 * last - 2, (1 + self.confidence) / 2))
        needed *= found.sigma / math.sqrt(last)
        spread = found.sigma * math.sqrt(1 / blocks - 1 / last)
        return float(special.stdtr(found.df, (gain - needed) / spread))


def winner(decisions: Mapping[str, Decision], better: Better = "higher") -> str | None:
    """The finalist that beats the baseline by the most; None where none does.

    Args:
        decisions: The last decision on each finalist.
        better: Which way the figure is better.
    """
    gains = {
        name: math.log(d.comparison.ratio) * (1 if better == "higher" else -1)
        for name, d in decisions.items()
        if d.next is Next.BETTER and d.comparison is not None
    }
    return max(gains, key=lambda name: gains[name]) if gains else None

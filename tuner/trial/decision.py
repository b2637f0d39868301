"""Who won, by how much, and how sure that is: the finalists' repeats, read by the score room."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.score import confirm
from tuner.score.confirm import Confirmation, Next
from tuner.score.paired import ABBA, Arm, Run
from tuner.spec.document import FIRST_LOOK
from tuner.store.rows import Origin, TrialRow


@dataclass(frozen=True, slots=True)
class Standing:
    """One finalist after the rounds so far.

    Attributes:
        number: The finalist's trial.
        decision: What the confirmation says.
        runs: The scores behind it, in order, with the arm each one measured.
        broken: Why the finalist cannot win, whatever its scores: a repeat that failed.
    """

    number: int
    decision: confirm.Decision
    runs: tuple[Run, ...]
    broken: str | None = None

    @property
    def open(self) -> bool:
        """Whether another round could still change the answer."""
        return self.broken is None and self.decision.next is Next.GO_ON

    @property
    def better(self) -> bool:
        """Whether it beats the baseline for sure."""
        return self.broken is None and self.decision.next is Next.BETTER

    def as_json(self) -> dict[str, Any]:
        """The standing as JSON-ready data."""
        found = self.decision.comparison
        base = {
            "number": self.number,
            "answer": "failed a repeat" if self.broken else str(self.decision.next),
            "broken": self.broken,
            "runs": [{"arm": str(run.arm), "score": run.value} for run in self.runs],
        }
        if found is None:
            return {**base, "ratio": None, "low": None, "high": None}
        return {
            **base,
            "ratio": found.ratio,
            "low": _finite(found.low),
            "high": _finite(found.high),
            "confidence": found.confidence,
            "sigma": found.sigma,
            "drift": _finite(found.drift.change),
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """What a study came to.

    Attributes:
        baseline: Number of the baseline's trial.
        winner: Number of the trial to deploy: a finalist that is surely better, else the baseline.
        standings: Each finalist.
    """

    baseline: int
    winner: int
    standings: tuple[Standing, ...]

    @property
    def clear(self) -> bool:
        """Whether a finalist beat the baseline for sure."""
        return self.winner != self.baseline

    @property
    def best(self) -> Standing | None:
        """The winner, or the finalist that came closest to it; None without a comparison."""
        compared = [s for s in self.standings if s.decision.comparison is not None]
        return max(compared, key=lambda s: (s.better, _ratio(s)), default=None)

    def as_json(self) -> dict[str, Any]:
        """The decision as JSON-ready data."""
        return {
            "baseline": self.baseline,
            "winner": self.winner,
            "clear": self.clear,
            "comparisons": [s.as_json() for s in self.standings],
        }


COMPARISONS = 1000
"""Blocks from here on belong to comparisons that were asked for by hand; they decide nothing."""
_EACH_LOOKED_AT = 6
"""Up to so many rounds there is a look after each."""


def confirmation(finalists: int, rounds: int) -> Confirmation:
    """The rule by which finalists are confirmed, fixed before the first repeat.

    The first look is after two rounds where there are two: one round leaves a single degree of
    freedom, and its interval says next to nothing. Then each round is looked at, and after the sixth
    only when there are half as many more: each look costs a part of the error.

    Args:
        finalists: How many there are.
        rounds: The most rounds that there will be.
    """
    looks = [min(FIRST_LOOK, rounds)]
    while looks[-1] < rounds:
        step = 1 if looks[-1] < _EACH_LOOKED_AT else looks[-1] // 2
        looks.append(min(rounds, looks[-1] + step))
    return Confirmation(finalists=max(1, finalists), looks=tuple(looks))


def standings(
    trials: Sequence[TrialRow], finalists: Sequence[int], rounds: int
) -> tuple[Standing, ...]:
    """Each finalist by the repeats that were made so far.

    Args:
        trials: All trials of the study.
        finalists: Numbers of the finalists.
        rounds: The most rounds that there will be.
    """
    rule = confirmation(len(finalists), rounds)
    base = _baseline(trials)
    repeats = {(t.repeats, t.block): t for t in trials if t.origin is Origin.REPEAT}
    return tuple(_standing(rule, base.number, number, repeats) for number in finalists)


def decide(trials: Sequence[TrialRow], finalists: Sequence[int], rounds: int) -> Decision:
    """Decide from the repeats alone: the search's own scores chose who was repeated, no more."""
    found = standings(trials, finalists, rounds)
    base = _baseline(trials)
    sure = [s for s in found if s.better]
    winner = max(sure, key=_ratio).number if sure else base.number
    return Decision(base.number, winner, found)


def _standing(
    rule: Confirmation,
    base: int,
    number: int,
    repeats: Mapping[tuple[int | None, int | None], TrialRow],
) -> Standing:
    runs: list[Run] = []
    blocks = {b for of, b in repeats if of == number and b is not None}
    for block in sorted(b for b in blocks if b < COMPARISONS and b % 2 == 0):
        arms = {Arm.BASELINE: base, Arm.CANDIDATE: number}
        halves = (block, block, block + 1, block + 1)
        row = [repeats.get((arms[arm], half)) for arm, half in zip(ABBA, halves, strict=True)]
        broken = next(
            (t for t in row if t is not None and t.repeats == number and not _sound(t)), None
        )
        if broken is not None:
            why = f"trial {broken.number}: {broken.verdict or broken.stage}"
            return Standing(number, confirm.Decision(Next.NO_CLEAR_WINNER, None), tuple(runs), why)
        scores = [t.score for t in row if t is not None and t.score is not None and t.score > 0]
        if len(scores) == len(
            ABBA
        ):  # a round that is not whole, or whose baseline failed, says nothing
            runs += [Run(arm, score) for arm, score in zip(ABBA, scores, strict=True)]
    return Standing(number, _first_answer(rule, runs), tuple(runs))


def _first_answer(rule: Confirmation, runs: Sequence[Run]) -> confirm.Decision:
    """What the first look says that ends it; before that, what the last look said.

    Runs that came later, and runs since a look, change nothing: the error was shared out over the
    looks that were declared, and the first answer stands.
    """
    found = confirm.Decision(Next.GO_ON, None)
    for look in rule.looks:
        if len(runs) < look * len(ABBA) or found.next is not Next.GO_ON:
            break
        found = rule.decide(runs[: look * len(ABBA)])
    return found


def _sound(trial: TrialRow) -> bool:
    """Whether a repeat says nothing against its point: not over yet, or measured and feasible."""
    return trial.verdict is None or bool(trial.feasible)


def _baseline(trials: Sequence[TrialRow]) -> TrialRow:
    return next(t for t in trials if t.origin is Origin.BASELINE)


def _ratio(standing: Standing) -> float:
    found = standing.decision.comparison
    return 0.0 if found is None else found.ratio


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

"""Two trials against each other, in pairs, with a restart before each run: an A/B that was asked for.

Each comparison has a thousand blocks of the ledger to itself, so its runs are told from the
finalists' and from each other's, and one that was stopped goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuner.errors import UserError
from tuner.score.paired import ABBA, Arm, Comparison, Run, compare
from tuner.store.ledger import Ledger
from tuner.store.rows import StudyRow, TrialRow
from tuner.trial.context import Study
from tuner.trial.decision import COMPARISONS
from tuner.trial.finalists import Repeat, outstanding, schedule
from tuner.trial.runnable import point_of
from tuner.trial.study import StudyRunner

EVENT = "comparison"
"""The event that gives a pair of trials its blocks."""
MAX_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Pair:
    """Two trials that are compared.

    Attributes:
        a: Number of the first one; the ratio is over it.
        b: Number of the second one.
        place: Which comparison of the study it is, from 1.
    """

    a: int
    b: int
    place: int

    def schedule(self, rounds: int) -> list[Repeat]:
        """All runs, in blocks of A-B-B-A."""
        first = self.place * COMPARISONS
        return [Repeat(r.of, first + (r.block or 0)) for r in schedule(self.a, [self.b], rounds)]

    def owns(self, trial: TrialRow) -> bool:
        """Whether a trial is one of its runs."""
        return trial.block is not None and trial.block // COMPARISONS == self.place


@dataclass(frozen=True, slots=True)
class Result:
    """What a comparison came to.

    Attributes:
        pair: The trials.
        rounds: The rounds that are whole.
        runs: The scores behind it, in order.
        trials: The trials that measured them.
        failed: Runs that failed or missed a gate, in words; their rounds count for nothing.
        comparison: The ratio of B to A with its interval; None before the first whole round.
    """

    pair: Pair
    rounds: int
    runs: tuple[Run, ...]
    trials: tuple[int, ...]
    failed: tuple[str, ...]
    comparison: Comparison | None

    def as_json(self) -> dict[str, Any]:
        """The result as JSON-ready data."""
        found = self.comparison
        data: dict[str, Any] = {
            "a": self.pair.a,
            "b": self.pair.b,
            "rounds": self.rounds,
            "runs": [
                {"arm": str(run.arm), "score": run.value, "trial": number}
                for run, number in zip(self.runs, self.trials, strict=True)
            ],
            "failed": list(self.failed),
        }
        if found is None:
            return {**data, "finding": "nothing compared yet", "ratio": None}
        return {
            **data,
            "finding": str(found.finding),
            "ratio": found.ratio,
            "low": found.low,
            "high": found.high if math.isfinite(found.high) else None,
            "confidence": found.confidence,
            "sigma": found.sigma,
            "drift": found.drift.change if math.isfinite(found.drift.change) else None,
            "drift_clear": found.drift.clear,
        }


def pair_of(ledger: Ledger, row: StudyRow, a: int, b: int) -> Pair:
    """The comparison of two trials: the one that was begun, or a new one.

    Raises:
        StudyNotFound: When the study has no such trial.
        UserError: When they cannot be compared.
    """
    one, other = (point_of(ledger, row.id, number, "compare").number for number in (a, b))
    if one == other:
        raise UserError(
            f"trial {a} cannot be compared with itself",
            mend="its own noise is in the report, and in `tuner show --json`",
        )
    begun = ledger.events(row.id, kinds=(EVENT,))
    for event in begun:
        if (event.data["a"], event.data["b"]) == (one, other):
            return Pair(one, other, event.data["place"])
    pair = Pair(one, other, 1 + len(begun))
    ledger.note(row.id, EVENT, {"a": one, "b": other, "place": pair.place})
    return pair


def run_comparison(study: Study, pair: Pair, rounds: int) -> Result:
    """Make the runs that a comparison lacks, and compare.

    Args:
        study: The study, made ready.
        pair: The trials.
        rounds: How many rounds there shall be in all.
    """
    runner = StudyRunner(study)
    runner.take_up(pair.owns)
    for repeat in outstanding(pair.schedule(rounds), study.ledger.trials(study.row.id, light=True)):
        if study.wishes.ending:
            break
        runner.again(repeat)
    return result(pair, study.ledger.trials(study.row.id, light=True))


def result(pair: Pair, trials: Sequence[TrialRow], confidence: float = 0.95) -> Result:
    """What the runs so far say.

    Args:
        pair: The trials that are compared.
        trials: All trials of the study.
        confidence: Of the interval; it holds for a number of rounds that was fixed beforehand.
    """
    mine = {(t.repeats, t.block): t for t in trials if pair.owns(t)}
    plan = pair.schedule(MAX_ROUNDS)
    runs: list[Run] = []
    numbers: list[int] = []
    failed: list[str] = []
    rounds = 0
    for start in range(0, len(plan), len(ABBA)):
        row = [mine.get((r.of, r.block)) for r in plan[start : start + len(ABBA)]]
        over = [t for t in row if t is not None and t.verdict is not None]
        bad = [t for t in over if not t.feasible or not t.score or t.score <= 0]
        failed += [f"trial {t.number} ({_arm(t, pair)}): {t.verdict}" for t in bad]
        if len(over) < len(ABBA):
            break
        if not bad:
            rounds += 1
            runs += [Run(arm, t.score or 0.0) for arm, t in zip(ABBA, over, strict=True)]
            numbers += [t.number for t in over]
    found = compare(runs, confidence=confidence) if runs else None
    return Result(pair, rounds, tuple(runs), tuple(numbers), tuple(failed), found)


def _arm(trial: TrialRow, pair: Pair) -> str:
    return str(Arm.BASELINE if trial.repeats == pair.a else Arm.CANDIDATE)

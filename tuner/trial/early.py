"""Ending a trial early: as soon as its conversations show that it is clearly worse than the best one.

The records of the load under way are compared, conversation by conversation, with those of the best
feasible trial so far, which was asked the same. What is learnt is only that it is worse: a part of
a load has no score, and its gates are not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.load.record import Record, Since
from tuner.load.store import read_records
from tuner.score.columns import Columns, from_records
from tuner.score.noise import Noise
from tuner.score.official import Weights
from tuner.score.segments import EarlyStop, Stop, segment_ratios
from tuner.store.rows import Origin, TrialRow

CLEARLY_WORSE = "clearly_worse"
"""The verdict of a trial that was ended early; its engine was healthy."""

LOOKS = (8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Reference:
    """The trial that others are held against.

    Attributes:
        number: Its number.
        score: Its score.
        records: The records of its load.
        turns: How many turns each of its conversations has.
        since: Where the latencies of both loads start.
    """

    number: int
    score: float
    records: Columns
    turns: dict[int, int]
    since: Since = "sent"

    @classmethod
    def of(cls, trial: TrialRow, records: Sequence[Record], since: Since = "sent") -> Reference:
        """The reference that a measured trial is."""
        turns = Counter(record.session for record in records)
        columns = from_records(records).since(since)
        return cls(trial.number, trial.score or 0.0, columns, dict(turns), since)


@dataclass(frozen=True, slots=True)
class Worse:
    """Why a trial was ended early.

    Attributes:
        reference: The trial that it is worse than.
        score: That trial's score.
        stop: What the test says.
        of: Conversations of the whole load.
    """

    reference: int
    score: float
    stop: Stop
    of: int

    @property
    def estimate(self) -> float:
        """What its score might have become, for the sampler alone."""
        return self.score * (self.stop.ratio or 0.0)

    @property
    def bound(self) -> float:
        """What its score lies below: that trial's, less what chance makes two runs differ by."""
        return self.score * (1 - self.stop.margin)

    @property
    def words(self) -> str:
        """The finding, for people."""
        ratio, p = self.stop.ratio or 0.0, self.stop.p or 0.0
        return (
            f"after {self.stop.segments} of {self.of} conversations it does {ratio:.0%} of what trial "
            f"{self.reference} did in them (median); chance makes single runs differ by "
            f"{self.stop.margin:.0%}, and p is {p:.2g} beyond that"
        )

    def as_json(self) -> dict[str, Any]:
        """The judgement that the ledger keeps."""
        return {
            "verdict": CLEARLY_WORSE,
            "title": "ended early: clearly worse than the best trial so far",
            "stage": "serving",
            "rule": "paired test over conversations",
            "evidence": [
                {"line": None, "text": self.words},
                {"line": None, "text": "it has no score, and its gates were not judged"},
            ],
            "notes": [],
            "advice": "Nothing to mend. To have every trial run to its end: search.stop_early: false.",
            "teaches": True,
            "retry": "none",
            "violation": None,
            "failed": True,
            "estimate": self.estimate,
            "bound": self.bound,
            "segments": self.stop.segments,
        }


@dataclass(slots=True)
class EarlyWatch:
    """Takes the records of a load in as they come, and says when it has seen enough.

    Attributes:
        reference: The trial that this one is held against.
        noise: The study's noise between starts.
        weights: What a token is worth.
        worse: The finding, once there is one.
    """

    reference: Reference
    noise: Noise
    weights: Weights
    worse: Worse | None = None
    _records: list[Record] = field(default_factory=list)
    _turns: Counter[int] = field(default_factory=Counter)
    _whole: int = 0

    def take(self, record: Record) -> None:
        """Take in a record; after some conversations, look at all of them."""
        self._records.append(record)
        self._turns[record.session] += 1
        if self._turns[record.session] != self.reference.turns.get(record.session):
            return
        self._whole += 1
        if self.worse is None and self._whole in self._looks:
            self._look()

    def is_set(self) -> bool:
        """Whether the load is to end."""
        return self.worse is not None

    @property
    def _looks(self) -> tuple[int, ...]:
        """When to look: not when hardly anything would be saved."""
        whole = len(self.reference.turns)
        return tuple(look for look in LOOKS if look <= 0.8 * whole)

    def _look(self) -> None:
        rule = EarlyStop(self.noise, looks=self._looks)
        ours = from_records(self._records).since(self.reference.since)
        ratios = segment_ratios(ours, self.reference.records, self.weights)
        found = rule.decide(ratios)
        if found.stop:
            of = len(self.reference.turns)
            self.worse = Worse(self.reference.number, self.reference.score, found, of)


def best_so_far(trials: Sequence[TrialRow]) -> TrialRow | None:
    """The best feasible trial of the search; None while there is none."""
    origins = {Origin.BASELINE, Origin.FIRST, Origin.SEARCH}
    found = [t for t in trials if t.origin in origins and t.feasible and t.score]
    return max(found, key=lambda t: t.score or 0.0, default=None)


def reference_of(trial: TrialRow, file: Path, since: Since = "sent") -> Reference | None:
    """The reference that a trial is, by the records of its load; None where they are lost."""
    try:
        records = list(read_records(file))
    except UserError:
        return None
    return Reference.of(trial, records, since) if records else None

"""Ending a load of a cheaper level as soon as what it offers has settled, but not near a gate.

Only loads of cheaper levels end in this way: what the real level comes to counts with its whole
population or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.fidelity.early import Counts, Offered, may_stop
from tuner.load.plan import Plan
from tuner.load.record import Record
from tuner.score.gates import Gate
from tuner.score.measure import measure
from tuner.score.objective import WEIGHTED, Objective
from tuner.score.official import Weights
from tuner.score.rank import Standing, stand


def offered(plan: Plan) -> Offered:
    """What a whole plan offers; lengths where it states them for every request."""
    turns = [turn for session in plan.sessions for turn in session.turns]
    prompts = [t.expect_prompt_tokens for t in turns if t.expect_prompt_tokens is not None]
    answers = [t.expect_output_tokens for t in turns if t.expect_output_tokens is not None]
    return Offered(plan.requests, _mean(prompts, len(turns)), _mean(answers, len(turns)))


def _mean(known: Sequence[int], of: int) -> float | None:
    return sum(known) / of if of and len(known) == of else None


@dataclass(slots=True)
class SettledWatch:
    """Takes the records of a load in as they come, and says when it has shown enough.

    Attributes:
        plan: The load.
        gates: What its figures so far are held against.
        weights: What a token is worth.
        objective: What the score is.
        why: Why it may end, once it may.
        records: The requests that are over.
    """

    plan: Plan
    gates: Sequence[Gate]
    weights: Weights
    objective: Objective = WEIGHTED
    why: str | None = None
    records: list[Record] = field(default_factory=list)
    _history: list[Counts] = field(default_factory=list)
    _offered: Offered | None = None

    def take(self, record: Record) -> None:
        """Take in a record of a request that is over."""
        if self.why is not None:
            return  # cut by our own wish to end
        self.records.append(record)
        if record.ok:
            self._history.append(self._counts(record))
            self._look()

    def is_set(self) -> bool:
        """Whether the load is to end."""
        return self.why is not None

    def standing(self) -> Standing:
        """The load so far, held against the gates."""
        limits, leading = self.objective.limits, self.objective.leading
        found = measure(self.records, wall_s=self.wall_s, since=self.plan.since, limits=limits)
        return stand(found, self.gates, self.weights, objective=leading)

    @property
    def wall_s(self) -> float:
        """Seconds from the start of the load to the end of its last request so far."""
        return max((r.end for r in self.records if r.end is not None), default=0.0)

    def _counts(self, record: Record) -> Counts:
        before = self._history[-1] if self._history else Counts(0, 0.0, 0, 0, 0)
        return Counts(
            requests=before.requests + 1,
            elapsed_s=max(before.elapsed_s, record.end or 0.0),
            prompt_tokens=before.prompt_tokens + (record.prompt_tokens or 0),
            cached_tokens=before.cached_tokens + (record.cached_tokens or 0),
            output_tokens=before.output_tokens + (record.output_tokens or 0),
        )

    def _look(self) -> None:
        if self._offered is None:
            self._offered = offered(self.plan)
        if not may_stop(self._history, self._offered).stop:
            return
        # Gates are costly to look at, so they come last.
        found = may_stop(self._history, self._offered, self.standing().gates)
        self.why = found.why if found.stop else None

"""The last part of a study: who is confirmed, and what of it did nothing."""

from __future__ import annotations

from collections.abc import Callable

from tuner.spec import Assignment, Point, assignment
from tuner.store.rows import Origin, TrialRow
from tuner.trial.climbing import HELD
from tuner.trial.contest import Hands, confirm, contend
from tuner.trial.context import Study
from tuner.trial.finalists import Repeat
from tuner.trial.inert import seen
from tuner.trial.repeats import standing
from tuner.trial.simpler import SIMPLER, Simpler, as_good, simpler

Again = Callable[[Repeat], None]
Offer = Callable[[Origin, Point, Assignment], bool]


class Finals:
    """Chooses finalists and measures them against the baseline.

    Args:
        study: The study and all that it has at hand.
        again: Measures a trial again.
        offer: Runs a point as a trial of its own.
    """

    def __init__(self, study: Study, *, again: Again, offer: Offer) -> None:
        self._study = study
        self._offer = offer
        self._hands = Hands(
            trials=self._trials,
            again=again,
            say=study.voice.say,
            stopped=lambda: study.wishes.ending,
        )

    def contend(self) -> None:
        """Measure rivals again while that can still change which trials become finalists."""
        contend(self._study.space.search, self._hands)

    def finalists(self) -> list[int]:
        """Numbers of the trials that are confirmed: the best feasible ones above the baseline.

        A point without what did nothing stands for a finalist, once it has run itself.
        """
        found: list[int] = []
        for number in standing(self._trials(), self._study.space.search).finalists:
            if self._hands.stopped():
                break
            instead = self._without_inert(number)
            if instead is not None and instead not in found:
                found.append(instead)
        return found

    def _without_inert(self, number: int) -> int | None:
        """The trial that stands for a finalist; None where nothing of it is left."""
        study = self._study
        less = self._simpler(number)
        if less is None:
            return number
        same = self._own(less.params)
        if not same:
            self._offer(
                Origin.SIMPLER, less.params, assignment(study.space, less.params, study.context)
            )
            same = self._own(less.params)
        if same[0].origin is Origin.BASELINE:
            study.voice.say("note", text=f"all that finalist {number} changes did nothing")
            return None
        told = all(inert["told"] for inert in less.inert)
        good = as_good(same[0], number, self._trials(), told=told)
        return same[0].number if good else number

    def _own(self, params: Point) -> list[TrialRow]:
        """The trials of a point itself; one that a cheaper level held has no score to go by."""
        return [
            t
            for t in self._trials()
            if t.params == params and t.repeats is None and t.verdict != HELD
        ]

    def _simpler(self, number: int) -> Simpler | None:
        """A finalist without what did nothing. What was found once stays found, also on resuming."""
        study = self._study
        events = study.ledger.events(study.row.id, kinds=(SIMPLER, "readback"))
        for event in events:
            if event.kind == SIMPLER and event.data["of"] == number:
                return Simpler.from_json(event.data)
        base = study.ledger.first_of(study.row.id, Origin.BASELINE)
        finalist = study.ledger.trial(study.row.id, number)
        if base is None:
            return None
        readbacks = {e.number: e.data for e in events if e.number is not None}
        found = simpler(
            study.space,
            study.context,
            self._trials(),
            seen(finalist, readbacks),
            seen(base, readbacks),
            number,
        )
        if found is not None:
            study.voice.say(SIMPLER, **found.as_json())
        return found

    def confirm(self, finalists: list[int]) -> None:
        """Measure the finalists again, round by round, until the answer is clear or rounds end."""
        confirm(self._study.space.search, self._hands, finalists)

    def _trials(self) -> list[TrialRow]:
        return self._study.ledger.trials(self._study.row.id, light=True)

"""The queue that a trusted proxy orders: points that were drawn and wait, kept in the ledger.

While no proxy is trusted there is no queue: points are asked for one at a time. Once one is, several
are drawn for each trial, and the proxy's gate says which of them runs. What was drawn is in the
ledger before anything is chosen from it, and it waits for as long as it has no trial: so a study that
was killed goes on with the same queue, and what was put off is there when the gate closes.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tuner.search.keys import key
from tuner.search.sampler import Sampler
from tuner.spec import Assignment
from tuner.store.ledger import Said
from tuner.trial.context import Study
from tuner.trial.shadow import Shadow

QUEUE = "queue"
"""The event that says which points were drawn."""

BATCH = 8
"""Points that are drawn at once, when the proxy would put off everything that waits."""
MOST = 64
"""Points that wait at most; with more of them put off, they run instead."""
GRID = 512
"""Points of a grid that are ordered at once: the first of those that are left."""

_Queue = dict[str, Assignment]


@dataclass(frozen=True, slots=True)
class Next:
    """What runs next.

    Attributes:
        assignment: The point.
        beside: What becomes true when it gets its trial.
    """

    assignment: Assignment
    beside: tuple[Said, ...] = ()


@dataclass(slots=True)
class Ordering:
    """Hands out the points of a search.

    Attributes:
        study: The study and all that it has at hand.
        shadow: The proxy and its gate.
    """

    study: Study
    shadow: Shadow
    _drawn: _Queue = field(default_factory=dict)
    _drawn_for: int = -1

    def restore(self) -> None:
        """Take up what an earlier tuner drew, in the terms of the search space as it is now."""
        for event in self.study.ledger.events(self.study.row.id, kinds=(QUEUE, "migrated")):
            if event.kind == QUEUE:
                self._drawn |= {key(drawn): drawn for drawn in event.data["points"]}
                self._drawn_for = event.data["for"]
            else:
                self._drawn.clear()
                self._drawn_for = -1  # trials that count are fewer now: the number comes again

    def next(
        self, sampler: Sampler, number: int, taken: AbstractSet[str], last: Callable[[], bool]
    ) -> Next | None:
        """The point that runs next; None when the space has no other one, or work is to end.

        Args:
            sampler: Where points come from.
            number: Number of the trial that it is for.
            taken: Keys of the points that have a trial.
            last: Whether nothing will run after it.
        """
        if self.shadow.trusted and not self.shadow.ready:
            return self._meanwhile(sampler, number, taken)
        if self.shadow.trusted:
            waiting = self._filled(sampler, number, taken)
            if not waiting:
                return None
            point, beside = self.shadow.pick(list(waiting), last=last())
            return Next(waiting[point], tuple(beside))
        # What was drawn for a proxy that is trusted no more comes first, in its own order.
        waiting = self._waiting(taken)
        asked = next(iter(waiting.values()), None) or sampler.ask(number, taken)
        return None if asked is None else Next(asked)

    def _meanwhile(self, sampler: Sampler, number: int, taken: AbstractSet[str]) -> Next | None:
        """The point that runs while a trusted proxy cannot speak yet: what it put off goes on waiting."""
        waiting, off = self._waiting(taken), set(self.shadow.gate.deferred)
        asked = (
            next((drawn for point, drawn in waiting.items() if point not in off), None)
            or sampler.ask(number, taken | waiting.keys() | off)
            or sampler.ask(number, taken)  # nothing else is left
        )
        return None if asked is None else Next(asked)

    def _waiting(self, taken: AbstractSet[str]) -> _Queue:
        return {point: drawn for point, drawn in self._drawn.items() if point not in taken}

    def _filled(self, sampler: Sampler, number: int, taken: AbstractSet[str]) -> _Queue:
        """The queue with something in it that the proxy does not put off, where there is such."""
        if self.study.space.search.sampler == "grid":
            waiting = {key(left): left for left in sampler.rest(taken, GRID)}
            self.shadow.foretell(waiting)
            return {} if self._ending() else waiting
        waiting = self._waiting(taken)
        self.shadow.foretell(waiting)
        if self._ending():
            return {}
        # Once for each trial: one who goes on after a kill must not draw where nobody did.
        enough = number == self._drawn_for or len(waiting) >= MOST
        if waiting and (enough or self.shadow.keeps(list(waiting))):
            return waiting
        drawn = sampler.draw(number, taken | waiting.keys(), BATCH)
        if drawn:
            self._keep(drawn, number)
            waiting |= {key(each): each for each in drawn}
            self.shadow.foretell(waiting)
        return {} if self._ending() else waiting

    def _ending(self) -> bool:
        """Whether work is to end: what was foretold is not whole then, and nothing hangs on it."""
        return self.study.wishes.ending

    def _keep(self, drawn: list[Assignment], number: int) -> None:
        said = {"points": [dict(each) for each in drawn], "for": number}
        self.study.ledger.note(self.study.row.id, QUEUE, said)
        self._drawn |= {key(each): each for each in drawn}
        self._drawn_for = number

"""What is wished of a running study from outside; it may change at any moment, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.spec.limits import Budget


@dataclass(slots=True)
class Wishes:
    """What a study is wished to do.

    Attributes:
        cancelled: Set to end the trial in hand in good order, and then the work.
        pausing: Set to end the work when the trial in hand is over.
        budget: Limits in place of the search space's own: ``trials``, ``wall``, ``engine``; None for
            no limit of that kind.
    """

    cancelled: threading.Event = field(default_factory=threading.Event)
    pausing: threading.Event = field(default_factory=threading.Event)
    budget: dict[str, float | None] = field(default_factory=dict)

    @property
    def ending(self) -> bool:
        """Whether no further trial is to be started."""
        return self.cancelled.is_set() or self.pausing.is_set()

    def allow(self, budget: Mapping[str, float | None]) -> None:
        """Take other limits; those not named stay."""
        self.budget = {**self.budget, **budget}

    def limits(self, budget: Budget) -> dict[str, float]:
        """The limits that hold now, by kind; a kind without a limit is not there.

        Args:
            budget: The search space's own.
        """
        own = {"trials": budget.trials, "wall": budget.wall, "engine": budget.engine}
        found = {name: self.budget.get(name, limit) for name, limit in own.items()}
        return {name: float(limit) for name, limit in found.items() if limit is not None}

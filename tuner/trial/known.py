"""The trials of a study as its worker knows them: what is over is read once, what is not each time.

The worker is the only one who writes them, and a trial that was told never changes. So a study of ten
thousand trials costs no more for the next one than a small study does.
"""

from __future__ import annotations

from tuner.search.keys import key
from tuner.store.ledger import Ledger
from tuner.store.overview import searched, seconds_by_trial, worked_by_trial
from tuner.store.rows import POINTS, Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.budget import Spending


class KnownTrials:
    """The trials of one study.

    Args:
        ledger: The ledger.
        study: The study's id; nobody else may be working on it. What the ledger tells of work on it
            by now was done in earlier sessions.
    """

    def __init__(self, ledger: Ledger, study: int) -> None:
        self._ledger = ledger
        self._study = study
        self._told: list[TrialRow] = []
        self._seconds: dict[int, float] = {}
        self._taken: set[str] = set()
        self._over = -1  # up to this number all are told
        mine, worked = searched(ledger, study), worked_by_trial(ledger, study)
        self._earlier = sum(seconds for number, seconds in worked.items() if number in mine)

    def all(self) -> list[TrialRow]:
        """All trials in the order of their numbers; what is over without its figures and its proof."""
        fresh = self._ledger.trials(self._study, after=self._over, light=True)
        found = [*self._told, *fresh]
        for trial in fresh:
            if trial.stage is not Stage.TOLD:
                break
            self._told.append(trial)
            self._over = trial.number
        return found

    def taken(self) -> set[str]:
        """Keys of the points that have a trial."""
        self._taken |= {key(t.assignment) for t in self.all() if t.assignment is not None}
        return self._taken

    def of(self, origin: Origin) -> list[TrialRow]:
        """Those whose point came from there."""
        return [t for t in self.all() if t.origin is origin]

    def searched(self) -> frozenset[int]:
        """Numbers of the trials whose time the search pays for."""
        return searched(self._ledger, self._study)

    def spending(self, session: float) -> Spending:
        """What the study has spent.

        Args:
            session: Seconds of the search since the worker took the study up.
        """
        trials = self.all()
        unknown = [t.number for t in trials if t.launched and t.number not in self._seconds]
        if unknown:
            counted = seconds_by_trial(self._ledger, self._study, after=unknown[0] - 1)
            self._seconds |= {n: counted.get(n, 0.0) for n in unknown if n <= self._over}
        else:
            counted = {}
        durations = {
            t.number: self._seconds.get(t.number, counted.get(t.number, 0.0))
            for t in trials
            if t.launched
        }
        mine = self.searched()
        engine = sum(seconds for number, seconds in durations.items() if number in mine)
        return Spending(
            trials=sum(t.number in durations and t.origin in POINTS for t in trials),
            engine=engine,
            wall=max(engine, self._earlier + session),
            durations=durations,
        )

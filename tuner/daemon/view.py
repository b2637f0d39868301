"""Studies and trials as the API shows them, read from the ledger."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from tuner.daemon.models import (
    Best,
    CurrentTrial,
    Spent,
    StudyDetail,
    StudySummary,
    TrialDetail,
)
from tuner.daemon.supervisor import Supervisor
from tuner.errors import TunerError
from tuner.score.objective import WEIGHTED
from tuner.search.keys import key
from tuner.spec import SearchSpace
from tuner.store.ledger import Ledger
from tuner.store.overview import Overview, overview, searched, seconds_by_trial
from tuner.store.queue import Entry, Queue
from tuner.store.rows import Origin, StudyRow, TrialRow
from tuner.trial.budget import engine_seconds, stage_seconds
from tuner.trial.deliver import decided
from tuner.trial.entry import stored_space
from tuner.trial.front import front_of
from tuner.trial.gatelog import GATE, of_trial
from tuner.trial.scoring import objective_of
from tuner.trial.summary import command_of, failed_gates, figures_beside, margins, trial_json
from tuner.trial.wishes import Wishes
from tuner.verdict.families import Family, family

_SCORES = 200


class Views:
    """Makes views of one ledger; for one thread and one moment.

    Args:
        ledger: The ledger.
        supervisor: The workers; None where no daemon runs.
    """

    def __init__(self, ledger: Ledger, supervisor: Supervisor | None) -> None:
        self._ledger = ledger
        self._entries = {entry.study: entry for entry in Queue(ledger).entries()}
        self._working = supervisor.working() if supervisor is not None else {}
        self._waiting = supervisor.waiting if supervisor is not None else {}

    def summaries(self) -> list[StudySummary]:
        """All studies, the oldest first."""
        return [self.summary(row) for row in self._ledger.studies()]

    def queued(self) -> list[int]:
        """Studies that wait, in order."""
        rows = {row.id: row for row in self._ledger.studies()}
        return [
            entry.study
            for entry in self._entries.values()
            if entry.wanted == "run"
            and rows[entry.study].status == "queued"
            and entry.study not in self._working
        ]

    def summary(self, row: StudyRow) -> StudySummary:
        """One study in a few words."""
        return StudySummary(**self._summary(row, overview(self._ledger, row.id)))

    def _summary(self, row: StudyRow, found: Overview) -> dict[str, Any]:
        entry: Entry | None = self._entries.get(row.id)
        queued = self.queued() if row.status == "queued" else []
        best = None if found.best is None else Best(trial=found.best[0], score=found.best[1])
        return {
            "study": row.name,
            "status": row.status,
            "reason": row.reason,
            "wanted": entry.wanted if entry else None,
            "waiting": self._waiting.get(row.id) if row.status == "queued" else None,
            "priority": entry.priority if entry else 0,
            "place": queued.index(row.id) + 1 if row.id in queued else None,
            "devices": list(self._working.get(row.id, (None, ()))[1]),
            "fingerprint": row.fingerprint,
            "created": row.created,
            "ended": row.ended,
            "trials": found.trials,
            "best": best,
        }

    def detail(self, row: StudyRow) -> StudyDetail:
        """One study with all that a page about it begins with."""
        ledger = self._ledger
        last_event = (
            ledger.last_event()
        )  # read first: what comes meanwhile is told twice, not never
        found = overview(ledger, row.id)
        entry, space = self._entries.get(row.id), _space(ledger, row)
        ends = ledger.events(row.id, kinds=["study"])
        delivered = ledger.events(row.id, kinds=["delivered"])
        return StudyDetail(
            **self._summary(row, found),
            **_allowed(space, entry),
            origin=row.origin,
            spent=_spent(ledger, row.id, found),
            search_over=_search_over(ledger, row.id),
            verdicts=found.verdicts,
            baseline=_baseline(ledger, row.id),
            margins=margins(ledger.trial(row.id, found.best[0])) if found.best else {},
            finals=_finals(ledger, row.id),
            scores=_scores(ledger, row.id),
            current=_current(ledger, row.id, found),
            levels=_levels(ledger, row.id),
            **_objective(ledger, row, space),
            decision=decided(ledger, row),
            delivered=delivered[-1].data if delivered else None,
            exit=ends[-1].data.get("exit") if ends else None,
            last_event=last_event,
        )


def trial_detail(ledger: Ledger, row: StudyRow, trial: TrialRow) -> TrialDetail:
    """All that is known of a trial."""
    steps = ledger.transitions(row.id, trial.number)
    return TrialDetail(
        **trial_json(trial),
        seconds=round(engine_seconds(steps), 3),
        **figures_beside(trial),
        missed=failed_gates(trial) if trial.feasible is False else [],
        family=family_of(trial.verdict, score=trial.score, feasible=trial.feasible),
        proxy=_by_proxy(ledger, trial),
        stages={str(stage): round(seconds, 3) for stage, seconds in stage_seconds(steps).items()},
        **command_of(row, trial),
    )


def _by_proxy(ledger: Ledger, trial: TrialRow) -> list[str]:
    if trial.assignment is None or trial.repeats is not None:
        return []
    events = ledger.events(trial.study, kinds=[GATE])
    return list(of_trial(events, trial.number, key(trial.assignment)))


def family_of(verdict: str | None, *, score: float | None, feasible: bool | None) -> Family:
    """The family of a trial's end; of one without a score nobody asked whether it is feasible."""
    return family(verdict, feasible=feasible if score is not None else None)


def _space(ledger: Ledger, row: StudyRow) -> SearchSpace | None:
    """A study's search space; None where it is older than the form that this tuner reads."""
    try:
        return stored_space(ledger, row)
    except TunerError:
        return None  # what ran can still be shown


def _allowed(space: SearchSpace | None, entry: Entry | None) -> dict[str, Any]:
    budget = dict(entry.budget) if entry else {}
    if space is None:
        return {"limits": budget, "repeats": 0}
    limits = Wishes(budget={**budget}).limits(space.budget)
    return {"limits": limits, "repeats": space.search.finalists.least_starts}


def _objective(ledger: Ledger, row: StudyRow, space: SearchSpace | None) -> dict[str, Any]:
    """What the score is, and the front of two objectives."""
    objective = WEIGHTED if space is None else objective_of(space)
    trials = [] if objective.pair is None else ledger.trials(row.id)
    return {"objective": objective.words, "front": front_of(trials, objective)}


def _spent(ledger: Ledger, study: int, found: Overview) -> Spent:
    seconds: Mapping[int, float] = seconds_by_trial(ledger, study)
    typical = statistics.median(seconds.values()) if seconds else 0.0
    mine = searched(ledger, study)
    engine = sum(spent for number, spent in seconds.items() if number in mine)
    return Spent(trials=found.launched, engine=engine, typical=typical)


def _search_over(ledger: Ledger, study: int) -> dict[str, Any] | None:
    """How the search ended, as far as the work in hand or the last one came to that."""
    said = ledger.events(study, kinds=["search_over", "search_again", "study"])
    last = [e for e in said if e.kind != "study" or e.data["status"] == "running"]
    return last[-1].data if last and last[-1].kind == "search_over" else None


def _baseline(ledger: Ledger, study: int) -> dict[str, Any] | None:
    first = ledger.first_of(study, Origin.BASELINE)
    return None if first is None else first.params


def _finals(ledger: Ledger, study: int) -> int | None:
    """Starts that are left of the finals; None where those of the work in hand have not begun."""
    said = [
        event
        for event in ledger.events(study, kinds=["finalists", "search_again", "study"])
        if event.kind != "study" or event.data["status"] == "running"
    ]
    if not said or said[-1].kind != "finalists":
        return None
    ((done,),) = ledger.db.rows(
        "SELECT COUNT(*) FROM trials WHERE study=? AND origin=? AND stage='told' AND ended>?"
        " AND history IS NULL",
        (study, Origin.REPEAT, said[-1].at),
    )
    return max(0, int(said[-1].data["starts"]) - int(done))


def _levels(ledger: Ledger, study: int) -> list[dict[str, Any]]:
    said = ledger.events(study, kinds=["levels"])
    return list(said[-1].data["rows"]) if said else []


def _scores(ledger: Ledger, study: int) -> list[float]:
    rows = ledger.db.rows(
        "SELECT score FROM trials WHERE study=? AND feasible=1 AND score IS NOT NULL"
        " AND history IS NULL ORDER BY ended DESC LIMIT ?",
        (study, _SCORES),
    )
    return [float(score) for (score,) in rows][::-1]


def _current(ledger: Ledger, study: int, found: Overview) -> CurrentTrial | None:
    if found.current is None:
        return None
    trial = ledger.trial(study, found.current)
    steps = ledger.transitions(study, trial.number)
    return CurrentTrial(
        trial=trial.number,
        origin=trial.origin,
        params=trial.params,
        attempt=trial.attempt,
        stage=trial.stage,
        entered={str(s.stage): s.at for s in steps if s.attempt == trial.attempt},
    )

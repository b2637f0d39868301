"""A study at a glance, counted by SQLite: what thousands of trials come to, without reading each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.store.ledger import Ledger
from tuner.store.rows import POINTS, Origin
from tuner.store.stages import RECOVERY, Stage, is_running

_RUNNING = json.dumps([str(stage) for stage in Stage if is_running(stage)])


@dataclass(frozen=True, slots=True)
class Overview:
    """What the trials of a study come to.

    Attributes:
        trials: All trials.
        told: Those that are over.
        launched: Points of the search for which an engine was started.
        verdicts: How many are over with which verdict.
        best: Number and score of the best feasible trial of the search; None while there is none.
        current: Number of the trial in hand; None where none is, as in a study that does not run: what
            was stopped on the way waits there with all the others.
    """

    trials: int
    told: int
    launched: int
    verdicts: dict[str, int]
    best: tuple[int, float] | None
    current: int | None


def overview(ledger: Ledger, study: int) -> Overview:
    """Count a study's trials."""
    db = ledger.db
    ((trials, told, launched),) = db.rows(
        "SELECT COUNT(*), COALESCE(SUM(stage='told'), 0),"
        " COALESCE(SUM(attempt>0 AND origin IN (?, ?, ?)), 0) FROM trials WHERE study=? AND history IS NULL",
        (*POINTS, study),
    )
    verdicts = db.rows(
        "SELECT verdict, COUNT(*) FROM trials WHERE study=? AND stage='told' AND history IS NULL"
        " GROUP BY verdict ORDER BY 2 DESC, 1",
        (study,),
    )
    best = db.row(
        "SELECT number, score FROM trials WHERE study=? AND feasible=1 AND score IS NOT NULL"
        " AND origin<>? AND history IS NULL ORDER BY score DESC, number LIMIT 1",
        (study, Origin.REPEAT),
    )
    current = db.row(
        "SELECT number FROM trials WHERE study=? AND stage<>'told' AND attempt>0 AND history IS NULL"
        " AND (SELECT status FROM studies WHERE id=study)='running'"
        " ORDER BY stage='planned', number LIMIT 1",
        (study,),
    )
    return Overview(
        trials=trials,
        told=told,
        launched=launched,
        verdicts={verdict or "unknown": count for verdict, count in verdicts},
        best=None if best is None else (best[0], best[1]),
        current=None if current is None else current[0],
    )


def briefs(
    ledger: Ledger,
    study: int,
    *,
    after: int = -1,
    limit: int = -1,
    history: bool = False,
    figures: bool = False,
) -> list[dict[str, Any]]:
    """The trials of a study in a few words each, in the order of their numbers.

    Args:
        ledger: The ledger.
        study: The study.
        after: Only trials with a higher number.
        limit: The most that are wanted; -1 for no limit.
        history: Whether those are wanted too that do not count any more.
        figures: Whether the two figures are wanted that stand beside a score: they take as long again.
    """
    rows = ledger.db.rows(
        "SELECT number, origin, repeats, block, stage, attempt, verdict, params, score, feasible,"
        " created, ended, history, CASE WHEN feasible=0 THEN json_extract(metrics, '$.workloads') END AS loads,"
        " json_extract(judgement, '$.level') AS level,"
        " CASE WHEN ? THEN (SELECT json_group_array(json_array(json_extract(value, '$.weight'),"
        "  json_extract(value, '$.figures.output_tps'), json_extract(value, '$.figures.ttft_p90_s')))"
        "  FROM json_each(metrics, '$.workloads')) END AS heads"
        " FROM trials WHERE study=? AND number>? AND (? OR history IS NULL)"
        " ORDER BY number LIMIT ?",
        (figures, study, after, history, limit),
    )
    seconds = seconds_by_trial(ledger, study, after=after)
    return [_brief(dict(row), seconds.get(row["number"], 0.0)) for row in rows]


def _brief(row: dict[str, Any], seconds: float) -> dict[str, Any]:
    feasible, loads = row["feasible"], json.loads(row.pop("loads") or "{}")
    missed = [g["figure"] for load in loads.values() for g in load["gates"] if not g["passed"]]
    heads = json.loads(row.pop("heads") or "[]")
    return {
        "trial": row.pop("number"),
        **row,
        "params": json.loads(row["params"]),
        "feasible": None if feasible is None else bool(feasible),
        "seconds": round(seconds, 3),
        "missed": missed,
        **headline(heads),
    }


def headline(loads: Iterable[Sequence[float | None]]) -> dict[str, float | None]:
    """The two figures that stand beside a trial's score, over all its workloads.

    Args:
        loads: Of each workload its weight, output TPS and TTFT P90 in seconds.

    Returns:
        ``output_tps``, weighted as the score is, and ``ttft_p90_s``, the longest; None where a
        workload has none, or where nothing was measured.
    """
    rows = list(loads)
    whole = [(w, tps) for w, tps, _ in rows if w is not None and tps is not None]
    waits = [ttft for *_, ttft in rows if ttft is not None]
    total = sum(weight for weight, _ in whole)
    known = rows and len(whole) == len(rows) and total > 0
    return {
        "output_tps": sum(w * tps for w, tps in whole) / total if known else None,
        "ttft_p90_s": max(waits) if rows and len(waits) == len(rows) else None,
    }


def seconds_by_trial(ledger: Ledger, study: int, *, after: int = -1) -> dict[int, float]:
    """Seconds of each trial in which its engine was up or starting, over all its attempts.

    As :func:`tuner.trial.budget.engine_seconds` counts them: on the boot's own clock, and a gap
    across a reboot, or one that recovery ended, counts for nothing.

    Args:
        ledger: The ledger.
        study: The study.
        after: Only of trials with a higher number.
    """
    rows = ledger.db.rows(
        "SELECT number, SUM(MAX(0.0, later - clock)) FROM ("
        "  SELECT number, stage, clock, boot, LEAD(clock) OVER w AS later, LEAD(boot) OVER w AS after,"
        "  LEAD(json_extract(detail, '$.by')) OVER w AS by"
        "  FROM transitions WHERE study=? AND number>? WINDOW w AS (PARTITION BY number ORDER BY id)"
        ") WHERE boot=after AND by IS NOT ? AND stage IN (SELECT value FROM json_each(?))"
        " GROUP BY number",
        (study, after, RECOVERY, _RUNNING),
    )
    return {number: float(seconds) for number, seconds in rows}


def worked_by_trial(ledger: Ledger, study: int) -> dict[int, float]:
    """Seconds of work on a study by the trial that they went to, pauses between sessions left out.

    A session begins when the study runs, and ends when it is told otherwise or runs again: a tuner
    that was killed tells nothing. It counts from the first word of a trial to the last one, so
    neither builds nor waiting for devices are in it. The time between two words goes to the trial
    of the second one.
    """
    rows = ledger.db.rows(
        "WITH said AS ("
        "  SELECT id, at, number, SUM(kind='study') OVER (ORDER BY id) AS part,"
        "  CASE kind WHEN 'study' THEN json_extract(data, '$.status') END AS status"
        "  FROM events WHERE study=?),"
        " words AS ("
        "  SELECT number, part, at - LAG(at) OVER (PARTITION BY part ORDER BY id) AS seconds"
        "  FROM said WHERE number IS NOT NULL)"
        "SELECT number, SUM(MAX(0.0, seconds)) FROM words"
        " WHERE seconds IS NOT NULL AND part IN (SELECT part FROM said WHERE status='running')"
        " GROUP BY number",
        (study,),
    )
    return {number: float(seconds) for number, seconds in rows}


def searched(ledger: Ledger, study: int) -> frozenset[int]:
    """Numbers of the trials whose time the search pays for: its points, and the baseline's repeats before it.

    What comes after the search is not among them: rivals and finalists that are measured again, a
    finalist without what did nothing. Neither is what was asked for by hand, nor history.
    """
    rows = ledger.db.rows(
        "SELECT number FROM trials WHERE study=?1 AND history IS NULL AND (origin IN (?2, ?3, ?4)"
        " OR (origin=?5 AND block IS NULL"
        "  AND repeats IN (SELECT number FROM trials WHERE study=?1 AND origin=?2)))",
        (study, *POINTS, Origin.REPEAT),
    )
    return frozenset(number for (number,) in rows)

"""Ledgers filled by hand: studies of any size that nobody ever ran."""

from __future__ import annotations

import json
import math
import sqlite3
from typing import Any

from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, StudyRow
from tuner.store.stages import Stage
from tuner.trial.entry import SPACE_COPY, study_folder

_SPACE = """\
version: 1
study: {name}
engine: {{recipe: cpu, model: {{make: tiny-hybrid}}}}
parameters:
  seqs: {{flag: --max-num-seqs, choices: [1, 2, 4, 8], baseline: 1}}
  batch: {{flag: --max-num-batched-tokens, integer: {{low: 256, high: 20000}}, baseline: 512}}
budget: {{trials: {trials}}}
workload: {{kind: conversations, conversations: 1, turns: 1, concurrency: 1, system_tokens: 10,
  turn_tokens: 10, output_tokens: 4, request_timeout: 10s, time_limit: 10s}}
"""
_STEPS = tuple(Stage)[1:-1]


def gates(margin: float) -> list[dict[str, Any]]:
    return [
        {
            "name": "ttft_p90_s",
            "figure": "ttft_p90_s",
            "limit": 10.0,
            "at_least": False,
            "value": 10.0 * (1 - margin),
            "outcome": "passed" if margin >= 0 else "failed",
            "passed": margin >= 0,
            "margin": margin,
        }
    ]


def metrics(number: int, margin: float) -> dict[str, Any]:
    figures = {f"figure_{n}": number + n / 7 for n in range(40)}
    load = {"weight": 1.0, "figures": figures, "gates": gates(margin)}
    return {"score": 1.0, "tier": "feasible", "shortfall": 0.0, "workloads": {"main": load}}


_BLOCK = 100


def fill_large(ledger: Ledger, name: str, *, trials: int) -> StudyRow:
    """As :func:`fill`, for thousands: a hundred trials are written, and then copied in the tables."""
    row = fill(ledger, name, trials=_BLOCK)
    with ledger.change() as db:
        for offset in range(_BLOCK, trials, _BLOCK):
            for table, key in (("trials", "number"), ("transitions", "id"), ("events", "id")):
                _copy(db, table, key, row.id, offset)
    return row


def _copy(db: sqlite3.Connection, table: str, key: str, study: int, offset: int) -> None:
    names = [row["name"] for row in db.execute("SELECT name FROM pragma_table_info(?)", [table])]
    kept = [name for name in names if name not in {"sum", "id"}]
    batch = f"256 + number + {offset}"
    other = {
        "number": f"number + {offset}",
        "origin": "CASE origin WHEN 'baseline' THEN 'search' ELSE origin END",
        "params": f"json_set(params, '$.batch', {batch})",
        "assignment": f"json_set(assignment, '$.batch', {batch})",
    }
    chosen = ", ".join(other.get(name, name) for name in kept)
    into = f"INSERT INTO {table}({', '.join(kept)})"
    db.execute(
        f"{into} SELECT {chosen} FROM {table} WHERE study=? AND number<? ORDER BY {key}",  # noqa: S608 - our names
        (study, _BLOCK),
    )


def fill(ledger: Ledger, name: str, *, trials: int) -> StudyRow:
    """A study whose trials were all told: most measured, some failed, some by a gate."""
    text = _SPACE.format(name=name, trials=trials)
    row = ledger.create_study(
        name=name, fingerprint=f"f-{name}", space=text, origin=f"/spaces/{name}.yaml"
    )
    folder = study_folder(ledger, name)
    folder.mkdir(parents=True)
    (folder / SPACE_COPY).write_text(text)
    for number in range(trials):
        _trial(ledger, row, number)
    ledger.set_status(row.id, "finished", exit_code=0)
    return ledger.study(name)


def add_trial(ledger: Ledger, row: StudyRow) -> int:
    """One more told trial of a study that was filled; its number."""
    ((number,),) = ledger.db.rows("SELECT COUNT(*) FROM trials WHERE study=?", (row.id,))
    _trial(ledger, row, number)
    return int(number)


def _trial(ledger: Ledger, row: StudyRow, number: int) -> None:
    params = {"seqs": 2 ** (number % 4), "batch": 256 + number}
    trial = ledger.plan(
        row.id,
        origin=Origin.BASELINE if number == 0 else Origin.SEARCH,
        params=params,
        assignment={"seqs": number % 4, "batch": 256 + number},
        deployment=json.loads(
            '{"recipe": "cpu", "model": "make:tiny-hybrid:0", "launch": "process", "argv": [], "env": {},'
            ' "served_name": "llm", "files": {}, "secrets": {}, "image": null, "version": null}'
        ),
    )
    failed, missed = number % 7 == 3, number % 7 == 5
    found: dict[str, Any] = {"verdict": "engine_crash" if failed else "healthy"}
    if not failed:
        found |= {
            "metrics": metrics(number, -0.1 if missed else 0.2),
            "score": 1000 + 100 * math.sin(number),
            "feasible": not missed,
            "constraints": {"start": -1.0, "ttft": 0.1 if missed else -0.2},
        }
    for stage in _STEPS:
        if failed and stage in {Stage.READY, Stage.PROBED, Stage.WARMED, Stage.MEASURED}:
            continue
        trial = ledger.advance(trial, stage, **(found if stage is Stage.VERIFIED else {}))
    lesson: dict[str, Any] = {"value": trial.score or 0.0}
    if failed:
        lesson |= {"feasible": False, "constraints": {"start": 1.0, "ttft": 1.0}}
    ledger.advance(
        trial,
        Stage.TOLD,
        say={"verdict": trial.verdict, "score": trial.score, "feasible": trial.feasible},
        **lesson,
    )

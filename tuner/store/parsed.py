"""Rows of the database as the ledger gives them out."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Final

from tuner.store.rows import LaunchRow, Origin, StudyRow, Transition, TrialRow
from tuner.store.stages import Stage

JSON_COLUMNS: Final = frozenset({"judgement", "metrics", "constraints"})
"""What a trial came to, as far as it is kept as JSON."""


def _load(raw: str | None) -> Any:
    return None if raw is None else json.loads(raw)


def _fields(row: sqlite3.Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys() if name != "sum"}  # noqa: SIM118 - a Row is no dict


def study(row: sqlite3.Row) -> StudyRow:
    """A study from its row."""
    return StudyRow(**{**_fields(row), "facts": json.loads(row["facts"])})


def trial(row: sqlite3.Row) -> TrialRow:
    """A trial from its row, whole or in part."""
    fields = _fields(row)
    for name in ("params", "assignment", "deployment", *JSON_COLUMNS):
        fields[name] = _load(fields[name])
    feasible = None if row["feasible"] is None else bool(row["feasible"])
    return TrialRow(
        **{
            **fields,
            "origin": Origin(row["origin"]),
            "stage": Stage(row["stage"]),
            "feasible": feasible,
        }
    )


def transition(row: sqlite3.Row) -> Transition:
    """A change of stage from its row."""
    return Transition(
        row["number"],
        row["attempt"],
        Stage(row["stage"]),
        row["at"],
        row["clock"],
        row["boot"],
        json.loads(row["detail"]),
    )


def launch(row: sqlite3.Row) -> LaunchRow:
    """A launch from its row."""
    fields = {name: row[name] for name in ("id", "study", "number", "attempt", "kind", "status")}
    return LaunchRow(**fields, identity=json.loads(row["identity"]), proof=_load(row["proof"]))

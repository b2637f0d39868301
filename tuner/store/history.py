"""Trials that count no more: they stay in the ledger with the reason, and nothing reads them as results."""

from __future__ import annotations

from tuner.store.ledger import Ledger
from tuner.store.rows import TrialRow


def set_aside(ledger: Ledger, trial: TrialRow, why: str) -> None:
    """Keep one trial as history: it is not run any more, and counts for nothing.

    Args:
        ledger: The ledger.
        trial: The trial.
        why: The reason, for people.
    """
    with ledger.change() as db:
        db.execute(
            "UPDATE trials SET history=? WHERE study=? AND number=?",
            (why, trial.study, trial.number),
        )

"""A study of the ledger as a study of Optuna's: for Optuna's own page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import UserError
from tuner.search.dashboard import Copied, copy_study
from tuner.spec.axes import layout
from tuner.store.ledger import Ledger
from tuner.store.rows import StudyRow, TrialRow
from tuner.store.stages import Stage
from tuner.trial.summary import failed_gates
from tuner.trial.telling import context_of, space_of

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


def optuna_copy(ledger: Ledger, row: StudyRow, into: Path | None = None) -> BaseStorage:
    """A copy of a study: its told trials, each with its verdict.

    Repeats stand in it as trials of their own; what was not measured stands there as failed.

    Args:
        ledger: The ledger.
        row: The study.
        into: A file for it; in memory without one.

    Raises:
        UserError: When there is nothing to copy yet, or the file is there.
    """
    space = space_of(ledger, row)
    context = None if space is None else context_of(space, row)
    if space is None or context is None:
        raise UserError(f"study {row.name} has nothing to show yet: its engine is not built")
    told = [t for t in ledger.trials(row.id) if t.stage is Stage.TOLD and t.history is None]
    return copy_study(row.name, layout(space, context), [_copied(t) for t in told], into)


def _copied(trial: TrialRow) -> Copied:
    facts = {
        "trial": trial.number,
        "origin": str(trial.origin),
        "verdict": trial.verdict,
        "repeats": trial.repeats,
        "missed": failed_gates(trial),
    }
    return Copied(
        trial.assignment or {},
        trial.score,
        trial.constraints or {},
        trial.created,
        trial.ended or trial.created,
        {name: value for name, value in facts.items() if value not in (None, [])},
    )

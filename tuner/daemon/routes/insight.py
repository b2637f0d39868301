"""What can be read out of a study's trials: importance of parameters, and where a score comes from."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from tuner.daemon.models import Importance
from tuner.daemon.problems import RESPONSES
from tuner.daemon.routes.studies import StudyName
from tuner.daemon.routes.trials import Number
from tuner.daemon.service import Here

router = APIRouter(prefix="/v1/studies/{study}", tags=["insight"], responses=RESPONSES)


@router.get("/importance")
def importance(here: Here, study: StudyName) -> Importance:
    """Which parameters tell the best trials of a study from the others."""
    from tuner.trial.telling import importance_of  # noqa: PLC0415 - Optuna, needed only here

    with here.books.read() as ledger:
        trials, found = importance_of(ledger, ledger.study(study))
    return Importance(trials=trials, shares=found)


@router.get("/trials/{trial}/loads")
def loads(here: Here, study: StudyName, trial: Number) -> dict[str, dict[str, Any]]:
    """What was measured of each workload of a trial, by prompt length, and where its score comes from.

    Read from the trial's own records; nothing of a workload whose records are not kept any more.
    """
    from tuner.trial.telling import loads_of  # noqa: PLC0415 - scipy, needed only here

    with here.books.read() as ledger:
        row = ledger.study(study)
        found = loads_of(ledger, row, ledger.trial(row.id, trial))
    redacted: dict[str, dict[str, Any]] = here.books.redact.data(found)
    return redacted

"""Trials: listed, shown, and where each point differs from the baseline."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from fastapi.responses import Response

from tuner.daemon.models import TrialBrief, TrialDetail
from tuner.daemon.problems import RESPONSES
from tuner.daemon.routes.studies import StudyName
from tuner.daemon.service import Here
from tuner.daemon.view import family_of, trial_detail
from tuner.store.overview import briefs

router = APIRouter(prefix="/v1/studies/{study}", tags=["trials"], responses=RESPONSES)

Number = Annotated[int, InPath(ge=0, lt=2**31, description="The trial's number.")]


@router.get("/trials", response_model=list[TrialBrief])
def list_trials(
    here: Here,
    study: StudyName,
    after: Annotated[
        int, Query(ge=-1, lt=2**31, description="Only trials with a higher number.")
    ] = -1,
    limit: Annotated[
        int, Query(ge=1, le=100_000, description="The most that are wanted.")
    ] = 100_000,
    history: Annotated[  # noqa: FBT002 - a query, which has a name
        bool, Query(description="Also those of an earlier search space that do not fit it.")
    ] = False,
    figures: Annotated[  # noqa: FBT002 - a query, which has a name
        bool, Query(description="Also output TPS and TTFT, which takes as long again.")
    ] = False,
) -> Response:
    """The trials of a study in a few words each, in the order of their numbers."""
    with here.books.read() as ledger:
        found = briefs(
            ledger,
            ledger.study(study).id,
            after=after,
            limit=limit,
            history=history,
            figures=figures,
        )
    for one in found:
        one["family"] = family_of(one["verdict"], score=one["score"], feasible=one["feasible"])
    # Ten thousand rows that the ledger has checked are not checked once more.
    return Response(json.dumps(found, ensure_ascii=False), media_type="application/json")


@router.get("/trials/{trial}")
def show_trial(here: Here, study: StudyName, trial: Number) -> TrialDetail:
    """All that is known of a trial."""
    with here.books.read() as ledger:
        row = ledger.study(study)
        return trial_detail(ledger, row, ledger.trial(row.id, trial))

"""Whether a trial's point can run once more: another search space may have left its engine behind."""

from __future__ import annotations

from tuner.errors import UserError
from tuner.spec.deployment import Deployment
from tuner.store.ledger import Ledger
from tuner.store.rows import ON_PURPOSE, TrialRow
from tuner.trial.context import Study


def point_of(ledger: Ledger, study: int, asked: int, doing: str) -> TrialRow:
    """The trial whose point is to run once more: for one that ran another one's point, the other one.

    Args:
        ledger: The ledger.
        study: The study's id.
        asked: The trial that was asked for.
        doing: What is done with it, as a verb: ``compare``.

    Raises:
        StudyNotFound: When the study has no such trial.
        UserError: When it does not count any more, or never started an engine.
    """
    trial = ledger.trial(study, asked)
    if trial.origin in ON_PURPOSE and trial.repeats is not None:
        trial = ledger.trial(study, trial.repeats)
    if trial.history is not None:
        raise UserError(
            f"trial {trial.number} is history: {trial.history}",
            mend=f"{doing} a trial that counts; `tuner trials` lists them",
        )
    if not trial.launched:
        raise UserError(
            f"trial {trial.number} never started an engine ({trial.verdict or trial.stage})",
            mend=f"{doing} a trial that ran",
        )
    return trial


def missing(study: Study, deployment: Deployment) -> str | None:
    """What a deployment needs and the study does not have any more, in a sentence; mostly nothing."""
    if deployment.engine not in study.engines:
        return f"the study has no engine {deployment.engine} any more"
    if deployment.model not in study.models:
        return f"the study has no model {deployment.model} any more"
    return None


def hindrance(study: Study, trial: TrialRow) -> str | None:
    """Why a trial that is planned cannot run in its study as it is now; None where it can.

    Args:
        study: The study.
        trial: The trial, read whole.
    """
    if trial.repeats is not None:
        run_again = study.ledger.trial(study.row.id, trial.repeats)
        if run_again.history is not None:
            return f"trial {trial.repeats}, which it runs again, is history: {run_again.history}"
    return missing(study, Deployment.from_json(trial.deployment))

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tuner.errors import StudyNotFound, UserError
from tuner.spec.deployment import Deployment
from tuner.store.history import set_aside
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.context import Study
from tuner.trial.runnable import hindrance, missing, point_of

WHY = "no point of the new search space comes to the same deployment"


def deployment(recipe: str = "cpu", model: str = "m", image: str | None = None) -> Deployment:
    return Deployment(recipe, model, "process", (), (), "served", image=image)


def ran(ledger: Ledger, study: int, repeats: int | None = None) -> TrialRow:
    trial = ledger.plan(
        study,
        origin=Origin.SEARCH if repeats is None else Origin.PROFILE,
        params={},
        assignment=None,
        deployment=deployment().as_json(),
        repeats=repeats,
    )
    return ledger.advance(trial, Stage.STARTING)


def study_of(ledger: Ledger, study: int, engine: str = "cpu", model: str = "m") -> Study:
    found = SimpleNamespace(
        ledger=ledger, row=SimpleNamespace(id=study), engines={engine: None}, models={model: None}
    )
    return cast("Study", found)


def test_history_does_not_run_again_however_it_is_named(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = ledger.create_study(name="x", fingerprint="f", space="", origin="").id
        first = ran(ledger, study)
        ran(ledger, study, repeats=0)
        assert point_of(ledger, study, 0, "profile").number == 0
        assert point_of(ledger, study, 1, "profile").number == 0
        set_aside(ledger, first, WHY)
        for asked in (0, 1):
            with pytest.raises(UserError) as refused:
                point_of(ledger, study, asked, "profile")
            assert str(refused.value) == (
                f"trial 0 is history: {WHY} — profile a trial that counts; `tuner trials` lists them"
            )
        with pytest.raises(StudyNotFound):
            point_of(ledger, study, 2, "profile")


def test_what_is_set_aside_counts_for_nothing_and_is_kept(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = ledger.create_study(name="x", fingerprint="f", space="", origin="").id
        set_aside(ledger, ran(ledger, study), WHY)
        other = ran(ledger, study)
    with Ledger(tmp_path, write=True) as ledger:  # its sums are looked at: the row is tuner's own
        assert ledger.trials(study) == [other]
        assert [t.history for t in ledger.trials(study, history=True)] == [WHY, None]


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({}, None),
        ({"recipe": "cuda"}, "the study has no engine cuda any more"),
        ({"image": "vllm:1"}, "the study has no engine cpu on vllm:1 any more"),
        ({"model": "other"}, "the study has no model other any more"),
    ],
)
def test_an_engine_or_a_model_that_the_study_left_is_named(
    tmp_path: Path, of: dict[str, Any], said: str | None
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        assert missing(study_of(ledger, 1), deployment(**of)) == said


def test_a_run_of_a_trial_that_became_history_is_hindered(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        row = ledger.create_study(name="x", fingerprint="f", space="", origin="").id
        first, again = ran(ledger, row), ran(ledger, row, repeats=0)
        assert hindrance(study_of(ledger, row), again) is None
        assert hindrance(study_of(ledger, row, engine="cuda"), again) == missing(
            study_of(ledger, row, engine="cuda"), deployment()
        )
        set_aside(ledger, first, WHY)
        assert hindrance(study_of(ledger, row), again) == (
            f"trial 0, which it runs again, is history: {WHY}"
        )

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tuner.errors import LedgerCorrupt, StateUnusable, StudyConflict, StudyNotFound
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage, may_follow


def new_study(ledger: Ledger, name: str = "s") -> int:
    return ledger.create_study(name=name, fingerprint="f", space="x: 1", origin="s.yaml").id


def new_trial(ledger: Ledger, study: int, **params: Any) -> TrialRow:
    return ledger.plan(study, origin=Origin.SEARCH, params=params, assignment=None, deployment={})


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = new_study(ledger)
        trial = new_trial(ledger, study, a=1, b=None, c="ü")
        trial = ledger.advance(trial, Stage.STARTING, detail={"why": "test"})
        ledger.launch_intended(trial, "process", {"pid": 0})
    with Ledger(tmp_path, write=True) as ledger:
        again = ledger.trial(study, 0)
        assert again == trial
        assert again.params == {"a": 1, "b": None, "c": "ü"}
        assert again.attempt == 1
        assert [t.stage for t in ledger.transitions(study)] == [Stage.PLANNED, Stage.STARTING]
        assert [row.identity for row in ledger.open_launches()] == [{"pid": 0}]


def test_two_tuners_do_not_share_a_state_folder(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        new_study(ledger)
        with pytest.raises(StateUnusable, match="another tuner"):
            Ledger(tmp_path, write=True)
        with Ledger(tmp_path, write=False) as reader:
            assert [s.name for s in reader.studies()] == ["s"]


def test_a_reader_cannot_change_anything(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        new_study(ledger)
    with Ledger(tmp_path, write=False) as reader, pytest.raises(sqlite3.OperationalError):
        reader.set_status(1, "finished")


def test_a_ledger_that_is_being_made_holds_no_study_yet(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").touch()
    with pytest.raises(StudyNotFound, match="no study"):
        Ledger(tmp_path, write=False)


def test_an_unwritable_folder_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnusable, match="cannot be written"):
        Ledger(tmp_path / "file" / "state", write=True)


def test_names_are_unique_and_missing_ones_are_said(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        new_study(ledger, "one")
        with pytest.raises(StudyConflict):
            new_study(ledger, "one")
        with pytest.raises(StudyNotFound, match="studies here: one"):
            ledger.study("two")
        with pytest.raises(StudyNotFound):
            ledger.trial(1, 5)


def test_a_trial_is_told_once(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        trial = new_trial(ledger, new_study(ledger))
        trial = ledger.advance(trial, Stage.VERIFIED)
        trial = ledger.advance(
            trial, Stage.TOLD, score=1.5, feasible=True, constraints={"a": -1.0}, value=1.5
        )
        assert (trial.score, trial.feasible, trial.constraints) == (1.5, True, {"a": -1.0})
        with pytest.raises(LedgerCorrupt):
            ledger.advance(trial, Stage.TOLD)


def test_no_other_column_can_be_set(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        trial = new_trial(ledger, new_study(ledger))
        with pytest.raises(TypeError, match="params"):
            ledger.advance(trial, Stage.STARTING, params={})
        assert ledger.trial(trial.study, 0).stage is Stage.PLANNED


def test_nan_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        trial = new_trial(ledger, new_study(ledger))
        with pytest.raises(ValueError, match="JSON"):
            ledger.advance(trial, Stage.STARTING, metrics={"x": float("nan")})
        assert ledger.trial(trial.study, 0).stage is Stage.PLANNED


@pytest.mark.parametrize("cut", [0, 1, 50, 99, 100, 1000, 5000])
def test_a_torn_ledger_is_refused_and_left_alone(tmp_path: Path, cut: int) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        new_trial(ledger, new_study(ledger))
    raw = (tmp_path / "ledger.sqlite").read_bytes()[:-4096]
    torn = raw[:cut] + bytes(200) + raw[cut + 200 :]
    (tmp_path / "ledger.sqlite").write_bytes(torn)
    with pytest.raises(LedgerCorrupt, match="left as it is"):
        Ledger(tmp_path, write=True)
    assert (tmp_path / "ledger.sqlite").read_bytes() == torn


class LedgerMachine(RuleBasedStateMachine):
    """The ledger against a model of it, with reopenings at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[int, list[Stage]] = {}

    @initialize()
    def begin(self) -> None:
        self.temp = tempfile.TemporaryDirectory()
        self.ledger = Ledger(Path(self.temp.name), write=True)
        self.study = new_study(self.ledger)

    @rule()
    def plan(self) -> None:
        trial = new_trial(self.ledger, self.study)
        assert trial.number == len(self.model)
        self.model[trial.number] = [Stage.PLANNED]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), stage=st.sampled_from(Stage))
    def advance(self, data: st.DataObject, stage: Stage) -> None:
        number = data.draw(st.sampled_from(sorted(self.model)))
        trial = self.ledger.trial(self.study, number)
        if may_follow(self.model[number][-1], stage):
            self.ledger.advance(trial, stage)
            self.model[number].append(stage)
        else:
            with pytest.raises(LedgerCorrupt):
                self.ledger.advance(trial, stage)

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger(Path(self.temp.name), write=True)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for number, stages in self.model.items():
            assert self.ledger.trial(self.study, number).stage is stages[-1]
            assert [t.stage for t in self.ledger.transitions(self.study, number)] == stages
            assert stages.count(Stage.TOLD) <= 1
            assert self.ledger.trial(self.study, number).attempt == stages.count(Stage.STARTING)

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            self.temp.cleanup()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)

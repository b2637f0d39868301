"""What breaks a trial off from outside, and what is then made of it."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.world import ENGINE, World
from tests.trial.factory import trial as row_of
from tuner.errors import NoSpaceLeft, TunerError
from tuner.load.tokens import TokensUnknown
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.rows import StudyRow, TrialRow
from tuner.store.stages import Stage
from tuner.trial.entry import attempt_folder, enter_study, study_folder
from tuner.trial.events import Happening
from tuner.trial.evidence import Ending
from tuner.trial.runner import verdict_of
from tuner.trial.session import work
from tuner.trial.wishes import Wishes
from tuner.verdict import Judgement, Retry, Verdict
from tuner.verdict import Stage as EngineStage

pytestmark = [pytest.mark.xdist_group("engines"), pytest.mark.timeout(60)]

ONE = {"budget": {"trials": 1}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def entered(ledger: Ledger, world: World) -> StudyRow:
    return enter_study(ledger, load_space(world.space), world.space)


def first(ledger: Ledger, row: StudyRow) -> TrialRow:
    return ledger.trial(row.id, 0)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        pytest.param(NoSpaceLeft("the disk is full"), "cancelled", marks=pytest.mark.slow),
        pytest.param(KeyboardInterrupt(), "cancelled", marks=pytest.mark.slow),
        pytest.param(TokensUnknown("no tokens"), "interrupted", marks=pytest.mark.slow),
        (ZeroDivisionError("a defect"), "interrupted"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_breaks_a_trial_off_is_not_the_trials_end(
    tmp_path: Path, error: BaseException, verdict: str
) -> None:
    def fail(what: Happening) -> None:
        if what.kind == "stage" and what.data["stage"] == "warmed":
            raise error

    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, World(tmp_path, ONE).make())
        with pytest.raises(type(error)):
            work(ledger, row, watchers=[fail], wishes=Wishes())
        trial = first(ledger, row)
        assert (trial.stage, trial.verdict) == (Stage.VERIFIED, verdict)
        assert trial.judgement is not None
        assert not trial.judgement["teaches"]
        assert not ledger.open_launches()
        work(ledger, row, watchers=[], wishes=Wishes())
        trial = first(ledger, row)
        assert (trial.stage, trial.verdict, trial.attempt) == (Stage.TOLD, "healthy", 2)
        assert trial.feasible
        assert trial.metrics is not None


@pytest.mark.slow
def test_a_disk_that_fills_up_is_said_and_the_trial_runs_again(tmp_path: Path) -> None:
    world = World(tmp_path, ONE).make()
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, world)
        folder = attempt_folder(study_folder(ledger, "fake"), 0, 1)

        def fill(what: Happening) -> None:
            if what.kind == "stage" and what.data["stage"] == "warmed":
                (folder / "measure-main.jsonl").symlink_to("/dev/full")

        with pytest.raises(NoSpaceLeft, match="the records cannot be written: No space left"):
            work(ledger, row, watchers=[fill], wishes=Wishes())
        assert ledger.study("fake").status == "failed"
        work(ledger, row, watchers=[], wishes=Wishes())
        trial = first(ledger, row)
        assert (trial.stage, trial.verdict, trial.feasible) == (Stage.TOLD, "healthy", True)


@pytest.mark.slow
def test_a_disk_that_fills_up_while_a_load_runs_is_said_as_itself(tmp_path: Path) -> None:
    def fill(what: Happening) -> None:
        if what.kind == "load":
            raise NoSpaceLeft("the disk is full", mend="free some")

    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, World(tmp_path, ONE).make())
        with pytest.raises(NoSpaceLeft, match=r"^the disk is full — free some$"):
            work(ledger, row, watchers=[fill], wishes=Wishes())
        ended = ledger.study("fake")
        assert (ended.status, ended.reason) == ("failed", "the disk is full — free some")
        assert ledger.events(row.id, kinds=["study"])[-1].data["exit"] == 2
        trial = first(ledger, row)
        assert (trial.stage, trial.verdict) == (Stage.VERIFIED, "cancelled")
        assert not ledger.open_launches()


@pytest.mark.slow
def test_a_stop_between_a_crash_and_its_confirmation_teaches_nothing(tmp_path: Path) -> None:
    wishes, heard = Wishes(), []

    def stop(what: Happening) -> None:
        heard.append(what.kind)
        if what.kind == "stage" and what.data["stage"] == "verified":
            wishes.cancelled.set()

    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, World(tmp_path, ONE, fake=("segfault",)).make())
        assert work(ledger, row, watchers=[stop], wishes=wishes) is None
        trial = first(ledger, row)
        assert (trial.stage, trial.attempt, trial.value) == (Stage.PLANNED, 1, None)
        assert ledger.transitions(row.id, 0)[-1].detail["was"] == "engine_crash"
        assert not {"told", "retry"} & set(heard)
        with pytest.raises(TunerError, match="the baseline does not run: engine_crash"):
            work(ledger, row, watchers=[], wishes=Wishes())
        trial = first(ledger, row)
        assert (trial.stage, trial.attempt) == (Stage.TOLD, 2)


@pytest.mark.slow
def test_an_engine_that_somebody_interrupts_in_its_start_is_not_forgotten(tmp_path: Path) -> None:
    killed: list[int] = []

    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, World(tmp_path, ONE).make())

        def interrupt(what: Happening) -> None:
            if what.kind == "sample" and not killed:
                (launch,) = ledger.open_launches()
                killed.append(launch.identity["pid"])
                os.kill(killed[0], signal.SIGINT)

        work(ledger, row, watchers=[interrupt], wishes=Wishes())
        trial = first(ledger, row)
        assert (trial.stage, trial.verdict, trial.attempt) == (Stage.TOLD, "healthy", 2)
        assert ledger.events(row.id, kinds=["retry"])[0].data["verdict"] != "cancelled"


def test_what_a_trial_came_to_on_levels_outlives_its_death_on_the_real_load() -> None:
    levels = {"brief": {"score": 7.0, "seconds": 1.0, "settled": {}, "workloads": {}}}
    died = Judgement(
        verdict=Verdict.DEVICE_OOM_RUN, title="", stage=EngineStage.SERVING, rule="", evidence=(), notes=(),
        numbers=None, advice="", teaches=True, retry=Retry.NONE, violation=None,
    )  # fmt: skip
    found = verdict_of(row_of(3), Ending(levels=levels), died)
    row = row_of(3, **found)
    assert (row.verdict, row.levels) == ("device_oom_run", levels)
    # Of a trial that is over in full they are with its metrics, and not twice.
    well = replace(died, verdict=Verdict.HEALTHY)
    assert "levels" not in verdict_of(row_of(3), Ending(levels=levels), well)["judgement"]


@pytest.mark.slow
def test_a_start_that_goes_on_is_not_ended_at_its_time(tmp_path: Path) -> None:
    """It loads for 8 s where 5 s are allowed, and says so all the while."""
    deadlines = {"start": "5s", "silence": "5s", "stop": "5s"}
    changes = {**ONE, "engine": {**ENGINE, "deadlines": deadlines}}
    world = World(tmp_path, changes, fake=("slow-start",)).make()
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, world)
        work(ledger, row, watchers=[], wishes=Wishes())
        trial = first(ledger, row)
        assert (trial.stage, trial.verdict, trial.attempt) == (Stage.TOLD, "healthy", 1)
        (ready,) = (s for s in ledger.transitions(row.id, 0) if s.stage is Stage.READY)
        assert ready.detail["seconds"] > 8

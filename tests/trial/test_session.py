from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.world import World
from tuner.errors import NothingFeasible, SpaceError, StateUnusable, TelemetryLost, UserError
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_study
from tuner.store.rows import StudyRow
from tuner.store.stages import Stage
from tuner.telemetry.detect import Detection
from tuner.telemetry.samples import NoDevices
from tuner.trial.entry import enter_study, study_folder
from tuner.trial.events import Happening
from tuner.trial.session import work
from tuner.trial.wishes import Wishes

pytestmark = pytest.mark.xdist_group("engines")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def entered(ledger: Ledger, folder: Path, **changes: Any) -> StudyRow:
    file = World(folder, changes).make().space
    return enter_study(ledger, load_space(file), file)


def test_a_study_is_decided_and_its_files_are_written(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, tmp_path, budget={"trials": 3})
        decision = work(ledger, row, watchers=[], wishes=Wishes())
        trials = ledger.trials(row.id)
        events = ledger.events(row.id)
        assert decision is not None
        assert ledger.study("fake").status == "finished"
    assert [t.stage for t in trials] == [Stage.TOLD] * len(trials)
    assert (tmp_path / "export" / "computility-run.yaml").is_file()
    # What was measured teaches: a value without its constraints would be dropped.
    measured = [t for t in trials if t.metrics is not None]
    assert measured
    assert all(t.constraints is not None and t.value == t.score for t in measured)
    told = [e for e in events if e.kind == "told"]
    assert [e.number for e in told] == [t.number for t in trials]
    best = max(
        (t for t in trials if t.repeats is None and t.feasible), key=lambda t: t.score or 0.0
    )
    assert [e.number for e in told if e.data["best"]][-1] == best.number
    assert [e.data["status"] for e in events if e.kind == "study"] == ["running", "finished"]


@pytest.mark.slow
def test_a_wish_to_pause_lets_the_trial_finish(tmp_path: Path) -> None:
    wishes = Wishes()

    def pause(what: Happening) -> None:
        if what.kind == "stage" and what.data["stage"] == "ready":
            wishes.pausing.set()

    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, tmp_path)
        assert work(ledger, row, watchers=[pause], wishes=wishes) is None
        (trial,) = ledger.trials(row.id)
        assert trial.stage is Stage.TOLD
        assert ledger.study("fake").status == "paused"


@pytest.mark.slow
def test_a_wish_to_stop_plans_the_trial_again(tmp_path: Path) -> None:
    wishes = Wishes()

    def stop(what: Happening) -> None:
        if what.kind == "stage" and what.data["stage"] == "warmed":
            wishes.cancelled.set()

    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, tmp_path)
        assert work(ledger, row, watchers=[stop], wishes=wishes) is None
        (trial,) = ledger.trials(row.id)
        assert trial.stage is Stage.PLANNED
        assert not ledger.open_launches()
        assert ledger.study("fake").status == "stopped"


@pytest.mark.slow
@pytest.mark.parametrize(("more", "launched"), [(False, 1), (True, 2)])
def test_more_budget_is_taken_while_it_runs(tmp_path: Path, *, more: bool, launched: int) -> None:
    wishes = Wishes()

    def raise_it(what: Happening) -> None:
        if more and what.kind == "told" and what.number == 0:
            wishes.allow({"trials": 2})

    space = {
        "budget": {"trials": 1},
        "search": {"sampler": "random", "finalists": {"count": 0}},
    }
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, tmp_path, first=[{"seqs": 4}], **space)
        work(ledger, row, watchers=[raise_it], wishes=wishes)
        assert sum(t.launched for t in ledger.trials(row.id)) == launched


def test_one_process_works_on_a_study(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, tmp_path)
        with (
            hold_study(study_folder(ledger, "fake"), {}),
            pytest.raises(StateUnusable, match=r"process \d+ works on the study 'fake'"),
        ):
            work(ledger, row, watchers=[], wishes=Wishes())


@pytest.mark.slow
def test_nothing_feasible_is_an_end_with_a_report(tmp_path: Path) -> None:
    gates = {
        "success_rate": 1.0,
        "cache_hit_rate": "off",
        "ttft_p90_s": 1e-9,
        "output_tps_p10": "off",
        "weighted": "off",
    }
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, tmp_path, score={"gates": gates}, budget={"trials": 1})
        with pytest.raises(NothingFeasible):
            work(ledger, row, watchers=[], wishes=Wishes())
        assert ledger.events(row.id, kinds=["study"])[-1].data["exit"] == 3
        assert (study_folder(ledger, "fake") / "report.md").is_file()


def test_a_model_that_is_not_there_is_said_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    monkeypatch.setattr("tuner.trial.session.build_engine", lambda name, **_: built.append(name))
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, tmp_path)
        shutil.rmtree(tmp_path / "model")
        with pytest.raises(SpaceError, match=r"there is no model at \S+/model — give") as caught:
            work(ledger, row, watchers=[], wishes=Wishes())
        assert ledger.study("fake").status == "failed"
    assert not built
    assert caught.value.file is not None
    line = caught.value.file.read_text().splitlines()[(caught.value.line or 0) - 1]
    assert "model:" in line


def test_a_secret_must_be_there_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = World(tmp_path).make().space
    given = "  env: {FAKE_SECRET: {from_env: MY_TOKEN}}\n  flags:"
    plain.write_text(plain.read_text().replace("  flags:", given, 1))
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = enter_study(ledger, load_space(plain), plain)
        with pytest.raises(UserError, match="MY_TOKEN, which is not set"):
            work(ledger, row, watchers=[], wishes=Wishes())
        monkeypatch.setenv("MY_TOKEN", "abc")
        with pytest.raises(UserError, match="too few"):
            work(ledger, row, watchers=[], wishes=Wishes())
        assert not ledger.trials(row.id)


@pytest.mark.parametrize(
    "place", ["detect_hardware", "served_model", "Study", "needed", "hold_devices"]
)
def test_what_looks_at_the_devices_is_closed_wherever_getting_ready_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    closed: list[NoDevices] = []

    class Source(NoDevices):
        def close(self) -> None:
            closed.append(self)

    def lost(*_: object, **__: object) -> None:
        raise TelemetryLost("the driver does not answer")

    monkeypatch.setattr("tuner.trial.session.detect", lambda: Detection(Source()))
    monkeypatch.setattr(f"tuner.trial.session.{place}", lost)
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = entered(ledger, tmp_path)
        with pytest.raises(TelemetryLost):
            work(ledger, row, watchers=[], wishes=Wishes())
        assert ledger.study("fake").status == "failed"
    assert len(closed) == 1

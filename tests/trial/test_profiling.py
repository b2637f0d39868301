"""A profile after the search, on the fake server: asked for by the search space, and by a command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.fakes.fake_counts import STAGES
from tests.fakes.world import ENGINE, World
from tests.trial.factory import trial
from tests.trial.test_study import run
from tuner.cli import register
from tuner.cli.main import app
from tuner.errors import SpaceError, StudyNotFound, UserError
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.overview import overview
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.admission import check_targets
from tuner.trial.deliver import export_files, report_files
from tuner.trial.entry import enter_study, study_folder
from tuner.trial.events import Happening
from tuner.trial.profiling import profile_of, profiled_number, stages_of
from tuner.trial.session import work
from tuner.trial.study import told_history
from tuner.trial.telling import material
from tuner.trial.wishes import Wishes

pytestmark = [pytest.mark.xdist_group("engines"), pytest.mark.timeout(120)]

FIRST = [{"seqs": 4, "moe": "native"}]
VARIABLES = {"ENGINEX_PROFILE_DECODE": "1", "ENGINEX_PROFILE_EVERY": "20"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def world(folder: Path, **changes: Any) -> World:
    # The measured load is to have more decode steps than enginex lets pass between two lines.
    load = {"kind": "conversations", "conversations": 2, "turns": 2, "concurrency": 2}
    load |= {"system_tokens": 64, "turn_tokens": 20, "output_tokens": 30}
    load |= {"request_timeout": "10s", "time_limit": "20s", "warmup": {"conversations": 1}}
    given = {"first": FIRST, "budget": {"trials": 2}, "workload": load, **changes}
    return World(folder, given).make()


def command(state: Path, *words: str) -> Any:
    if not any(c.callback and c.callback.__name__ == "profile" for c in app.registered_commands):
        register.commands(app)
    return CliRunner().invoke(app, ["--state", str(state), *words])


def profiles(trials: list[TrialRow]) -> list[TrialRow]:
    return [t for t in trials if t.origin is Origin.PROFILE]


@pytest.mark.slow
def test_the_winner_is_profiled_after_the_search_and_nothing_else_hears_of_it(
    tmp_path: Path,
) -> None:
    made = world(tmp_path, decode_profile=True)
    trials = run(made)
    (profile,) = profiles(trials)
    assert profile is trials[-1]  # after the search
    assert (profile.stage, profile.verdict, profile.repeats) == (Stage.TOLD, "healthy", 0)
    assert (profile.score, profile.feasible, profile.value) == (None, None, None)
    assert (profile.constraints, profile.assignment) == (None, None)
    base = trials[0]
    assert profile.params == base.params
    assert profile.deployment == {
        **base.deployment,
        "env": {**base.deployment["env"], **VARIABLES},
    }
    found = stages_of(profile)
    for kind in found.values():
        for name, (calls, _) in STAGES.items():
            assert kind["stages"][name]["count"] == kind["steps"] * calls
    # Four requests of 30 tokens are decoded in the measured load; the warm-up's are taken off.
    assert 120 - 20 < found["decode"]["steps"] <= 120 + 20
    assert len(told_history(trials)) == 2
    with Ledger(made.state, write=True) as ledger:
        row = ledger.study("fake")
        assert overview(ledger, row.id).launched == 2  # it takes nothing of the budget
        with pytest.raises(UserError, match="export trial 0"):
            export_files(ledger, row, profile.number)
        exported = export_files(ledger, row, 0)
        assert "ENGINEX_PROFILE" not in "".join(exported.values())
        files = report_files(ledger, row)
    for text in (files["report.md"], files["report.html"]):
        assert "Where a step spends its time" in text
        assert "routed_experts" in text.replace("\\_", "_")
    assert "routed_experts" in files["report-profile-0.svg"]
    assert "profile of 0" in files["report.md"]
    # 4 calls of 0.5 ms, 3 of 0.2 ms and 1 of 0.3 ms in each step.
    assert "timed the steps of trial 0: 69% of decode is routed_experts" in files[
        "report.md"
    ].replace("\\_", "_")
    assert (study_folder(ledger, "fake") / "report-profile-0.svg").is_file()


@pytest.mark.slow
def test_a_profile_that_was_broken_off_is_run_again_and_only_then(tmp_path: Path) -> None:
    made = world(tmp_path, decode_profile=True)
    stopped = run(made, stop_at="2 ready")
    (waiting,) = profiles(stopped)
    assert (waiting.number, waiting.stage) == (2, Stage.PLANNED)
    assert (tmp_path / "export").is_dir()  # what was decided is delivered before
    with Ledger(made.state, write=False) as ledger:
        assert ledger.study("fake").status == "stopped"
    (done,) = profiles(run(made))
    assert (done.number, done.stage, done.attempt) == (2, Stage.TOLD, 2)
    assert stages_of(done)
    again = run(made)  # what is there is not run again
    assert profiles(again) == [done]
    more = World(tmp_path, {**made.changes, "budget": {"trials": 3}})
    more.write_space()
    after = run(more)
    assert [t.origin for t in after[3:]] == [Origin.SEARCH]


@pytest.mark.slow
def test_a_pause_while_the_profile_runs_leaves_a_finished_study(tmp_path: Path) -> None:
    made, wishes = world(tmp_path, decode_profile=True), Wishes()

    def hear(what: Happening) -> None:
        if what.kind == "stage" and (what.number, what.data["stage"]) == (2, "ready"):
            wishes.pausing.set()

    with Ledger(made.state, write=True) as ledger:
        row = enter_study(ledger, load_space(made.space), made.space)
        decision = work(ledger, row, watchers=[hear], wishes=wishes)
        assert wishes.pausing.is_set()
        assert decision is not None
        assert (decision.winner, ledger.study("fake").status) == (0, "finished")
        (profile,) = profiles(ledger.trials(row.id))
        assert stages_of(profile)
        text = (study_folder(ledger, "fake") / "report.md").read_text()
    assert "Where a step spends its time" in text


@pytest.mark.slow
def test_a_profile_that_fails_changes_nothing(tmp_path: Path) -> None:
    made = world(tmp_path, decode_profile=True)
    stopped = run(made, stop_at="2 starting")
    (waiting,) = profiles(stopped)
    with Ledger(made.state, write=True) as ledger, ledger.change() as db:
        broken = {**waiting.deployment, "argv": [*waiting.deployment["argv"], "--no-such-flag"]}
        db.execute("UPDATE trials SET deployment=? WHERE number=2", (json.dumps(broken),))
    (failed,) = profiles(run(made))
    assert (failed.verdict, failed.score, failed.feasible) == ("flags_rejected", None, None)
    assert (failed.value, failed.constraints) == (None, None)
    with Ledger(made.state, write=False) as ledger:
        row = ledger.study("fake")
        assert row.status == "finished"
        text = report_files(ledger, row)["report.md"]
    assert "profile of trial 0, found nothing" in text


@pytest.mark.slow
def test_a_finished_study_is_profiled_by_a_command(tmp_path: Path) -> None:
    made = world(tmp_path)
    before = run(made)
    assert not profiles(before)
    done = command(made.state, "profile", "fake")
    assert done.exit_code == 0, done.output
    assert "trial 0, profiled in trial 2: healthy" in done.output
    assert "decode: " in done.output
    assert "routed_experts" in done.output
    same = command(made.state, "profile", "fake", "--json")  # is not run again
    found = json.loads(same.stdout)
    assert (found["trial"], found["run"]) == (0, 2)
    other = command(made.state, "profile", "fake", "--trial", "1", "--json")
    assert json.loads(other.stdout)["run"] == 3
    anew = command(made.state, "profile", "fake", "--trial", "2", "--again", "--json")
    assert (json.loads(anew.stdout)["trial"], json.loads(anew.stdout)["run"]) == (0, 4)
    with Ledger(made.state, write=False) as ledger:
        row = ledger.study("fake")
        assert row.status == "finished"
        trials = ledger.trials(row.id)
        assert [t.repeats for t in profiles(trials)] == [0, 1, 0]
        report = (study_folder(ledger, "fake") / "report.md").read_text()
    assert "Trial 0, decode: " in report
    assert "Trial 1, decode: " in report
    assert told_history(trials) == told_history(before)
    with Ledger(made.state, write=True) as ledger:
        planned = ledger.plan(
            row.id, origin=Origin.PROFILE, params={}, assignment=None, deployment={}, repeats=0
        )
        ended = ledger.advance(planned, Stage.VERIFIED, verdict="engine_crash")
        ledger.advance(ended, Stage.TOLD)
        found = material(ledger, ledger.study("fake")).profiles
        assert {of: times.run for of, times in found.items()} == {0: 4, 1: 3}
        text = report_files(ledger, ledger.study("fake"))["report.md"]
    assert "Timed in trial 4, a run of its own" in text
    assert f"Timed in trial {planned.number}" not in text
    assert f"Trial {planned.number}, a profile of trial 0, found nothing" in text


@pytest.mark.slow
def test_an_engine_that_prints_no_profile_is_said_to(tmp_path: Path) -> None:
    made = World(tmp_path, world(tmp_path).changes, fake=("no-profile",)).make()
    run(made)
    done = command(made.state, "profile", "fake")
    assert done.exit_code == 1
    assert "printed no profile" in done.output


@pytest.mark.slow
def test_after_a_migration_what_is_history_is_refused_and_never_in_the_way(tmp_path: Path) -> None:
    made = world(tmp_path)
    before = run(made)
    shutil.copytree(tmp_path / "model", tmp_path / "other")
    engine = {**ENGINE, "model": {"path": "other"}}
    moved = World(tmp_path, {**made.changes, "engine": engine, "decode_profile": True})
    moved.write_space()
    with Ledger(made.state, write=True) as ledger:
        row = enter_study(ledger, load_space(made.space), made.space, migrate=True)
        assert ledger.trials(row.id) == []
    for words in (("profile", "fake", "--trial", "1"), ("compare", "fake", "0", "1")):
        refused = command(made.state, *words)
        assert isinstance(refused.exception, UserError)
        assert "is history: no point of the new search space" in str(refused.exception)
    with Ledger(made.state, write=True) as ledger:
        assert ledger.trials(row.id) == []
        assert ledger.events(row.id, kinds=("comparison",)) == []
        with pytest.raises(UserError, match=r"trial 1 is history: .*`tuner show fake 1`"):
            export_files(ledger, row, 1)
        # An older tuner planned the run before it looked whether the engine was there.
        planted = ledger.plan(
            row.id,
            origin=Origin.PROFILE,
            params=before[1].params,
            assignment=None,
            deployment=before[1].deployment,
            repeats=1,
        )
    after = run(moved)
    assert planted.number not in [t.number for t in after]
    assert all(t.stage is Stage.TOLD for t in after)
    (profile,) = profiles(after)
    assert stages_of(profile)
    with Ledger(made.state, write=False) as ledger:
        assert ledger.study("fake").status == "finished"
        kept = ledger.trial(row.id, planted.number)
        assert (kept.history or "").startswith("trial 1, which it runs again, is history: ")
        notes = [e.data["text"] for e in ledger.events(row.id, kinds=("note",))]
    assert f"trial {planted.number} is not run any more: {kept.history}" in notes


def test_what_cannot_be_profiled_is_said(tmp_path: Path) -> None:
    made = world(tmp_path, decode_profile=True)
    recipe = made.folder / "recipe" / "recipe.yaml"
    spec = json.loads(recipe.read_text())
    spec["knows"] = {"env": ["FAKE*", "VLLM_*", "ENGINEX_MOE*"]}
    recipe.write_text(json.dumps(spec))
    with pytest.raises(SpaceError, match="knows no variable ENGINEX_PROFILE_DECODE"):
        check_targets(load_space(made.space))
    with Ledger(made.state, write=True) as ledger:
        row = ledger.create_study(name="x", fingerprint="f", space="", origin="")
        with pytest.raises(UserError, match="has not decided on a trial yet"):
            profiled_number(ledger, row, None)
        with pytest.raises(StudyNotFound):
            profiled_number(ledger, row, 3)
        ledger.plan(row.id, origin=Origin.SEARCH, params={}, assignment=None, deployment={})
        with pytest.raises(UserError, match="never started an engine"):
            profiled_number(ledger, row, 0)


def test_a_profile_that_found_stages_stands_before_a_later_one_that_did_not() -> None:
    good = {"profile": {"decode": {"steps": 1, "stages": {"gdn": {"total_s": 1.0, "count": 1}}}}}
    rows = [
        trial(5, origin=Origin.PROFILE, repeats=1, metrics=good),
        trial(6, origin=Origin.PROFILE, repeats=1, verdict="engine_crash"),
        trial(7, origin=Origin.PROFILE, repeats=1, stage=Stage.PLANNED),
        trial(8, origin=Origin.REPEAT, repeats=1),
    ]
    assert profile_of(rows, 1) is rows[0]
    assert profile_of(rows[1:], 1) is rows[1]
    assert profile_of(rows[2:], 1) is None
    assert profile_of(rows, 2) is None

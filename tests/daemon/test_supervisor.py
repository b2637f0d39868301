"""Studies through a real daemon, its workers and the fake engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.conftest import Keeper, body, of_folder, tuner, until, wait_for
from tests.fakes.ledgers import fill
from tests.fakes.world import World
from tuner.daemon.books import Books
from tuner.daemon.staff import Task, Worker
from tuner.daemon.supervisor import Supervisor
from tuner.errors import StateUnusable, StudyConflict, UserError
from tuner.store.ledger import Ledger

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engines"), pytest.mark.timeout(120)]

Make = Callable[..., World]


def test_a_study_runs_in_a_worker_and_its_files_are_delivered(
    keeper: Keeper, world: Make, tmp_path: Path
) -> None:
    with keeper.start() as client:
        given = client.post("/v1/studies", body(world()))
        assert (given["status"], given["wanted"], given["place"]) == ("queued", "run", 1)
        found = until(client, "fake", "finished")
        assert found["exit"] == 0
        assert Path(found["delivered"]["export"]) == tmp_path / "fake/out/computility-run.yaml"
        assert Path(found["delivered"]["export"]).is_file()
        trials = client.get("/v1/studies/fake/trials")
        assert [t["stage"] for t in trials] == ["told"] * len(trials)
        while client.get("/v1/health")["running"]:
            time.sleep(0.05)
        assert not keeper.workers()
        assert not of_folder(keeper.state)


def test_studies_that_need_the_same_device_run_one_after_the_other(
    keeper: Keeper, world: Make
) -> None:
    with keeper.start() as client:
        client.post("/v1/studies", body(world("one")))
        wait_for(client, "one", "plan")
        client.post("/v1/studies", body(world("two")))
        client.post("/v1/studies", body(world("three"), priority=5))
        time.sleep(0.5)
        queue = [s for s in client.get("/v1/studies") if s["status"] == "queued"]
        assert {s["study"]: s["place"] for s in queue} == {"three": 1, "two": 2}
        assert queue[0]["waiting"] == "host is with study one"
        client.patch("/v1/studies/two", {"before": "three"})
        assert client.get("/v1/health")["queued"] == ["two", "three"]
        for name in ("one", "two", "three"):
            until(client, name, "finished")
    with Ledger(keeper.state, write=False) as ledger:
        spans = {}
        for row in ledger.studies():
            steps = ledger.transitions(row.id)
            spans[row.name] = (steps[0].at, steps[-1].at)
    assert spans["one"][1] <= spans["two"][0]
    assert spans["two"][1] <= spans["three"][0]


def test_stop_ends_the_trial_and_resume_runs_it_again(keeper: Keeper, world: Make) -> None:
    slow = world(fake=("hang-in-load",))
    with keeper.start() as client:
        client.post("/v1/studies", body(slow))
        wait_for(client, "fake", "stage", stage="ready")
        client.post("/v1/studies/fake/stop")
        assert until(client, "fake", "stopped")["wanted"] == "stop"
        assert not of_folder(keeper.state)
        (trial,) = client.get("/v1/studies/fake/trials")
        assert (trial["stage"], trial["attempt"]) == ("planned", 1)
        World(slow.folder, slow.changes).make()  # the same question, without the hang
        client.post("/v1/studies/fake/resume", {})
        until(client, "fake", "finished")
        first = client.get("/v1/studies/fake/trials")[0]
        assert (first["stage"], first["attempt"], first["verdict"]) == ("told", 2, "healthy")
        for asked in ("stop", "pause"):  # there is nothing left to end
            said = client.post(f"/v1/studies/fake/{asked}")["said"]
            assert said == "study fake is finished already"
        assert client.get("/v1/studies/fake")["wanted"] == "run"


def test_pause_lets_the_trial_finish(keeper: Keeper, world: Make) -> None:
    with keeper.start() as client:
        client.post("/v1/studies", body(world(budget={"trials": 50})))
        wait_for(client, "fake", "stage", stage="ready")
        client.post("/v1/studies/fake/pause")
        until(client, "fake", "paused")
        trials = client.get("/v1/studies/fake/trials")
        assert all(t["stage"] == "told" for t in trials)
        client.post("/v1/studies/fake/resume", {})
        while len(client.get("/v1/studies/fake/trials")) == len(trials):
            time.sleep(0.05)
        client.post("/v1/studies/fake/stop")
        until(client, "fake", "stopped")


def test_more_budget_reaches_a_running_study(keeper: Keeper, world: Make) -> None:
    with keeper.start() as client:
        client.post("/v1/studies", body(world(budget={"trials": 2})))
        wait_for(client, "fake", "stage", stage="ready")
        client.patch("/v1/studies/fake", {"budget": {"trials": 4}})
        found = until(client, "fake", "finished")
        assert found["limits"]["trials"] == 4
        assert found["spent"]["trials"] == 4


def test_a_study_that_is_submitted_again_has_the_limits_that_are_said_now(
    keeper: Keeper, world: Make
) -> None:
    one = world(budget={"trials": 50})
    with keeper.start() as client:
        client.post("/v1/studies", body(one, budget={"trials": 40, "engine": 900}))
        wait_for(client, "fake", "stage", stage="ready")
        client.post("/v1/studies", body(one, budget={"trials": 2}))  # it runs: its worker is told
        found = until(client, "fake", "finished")
        assert found["limits"] == {"trials": 2}
        assert found["spent"]["trials"] == 2
        done = tuner(keeper.state, "queue", "fake", "--trials", "4")
        assert "fake is finished; go on with: tuner resume fake" in done.stderr
        one.write_space(budget={"trials": 3})
        client.post("/v1/studies", body(one))  # nothing is said: the search space counts
        while client.get("/v1/studies/fake")["spent"]["trials"] < 3:
            time.sleep(0.1)
        found = until(client, "fake", "finished")
        assert found["limits"] == {"trials": 3}
        assert found["spent"]["trials"] == 3


def test_a_changed_search_space_is_refused_with_the_difference(keeper: Keeper, world: Make) -> None:
    one = world()
    with keeper.start() as client:
        client.post("/v1/studies", body(one))
        until(client, "fake", "finished")
        one.write_space(seed=99)
        with pytest.raises(StudyConflict, match="seed: 5 → 99"):
            client.post("/v1/studies", body(one))


def test_a_study_that_cannot_run_fails_with_its_reason(keeper: Keeper, world: Make) -> None:
    with keeper.start() as client:
        client.post("/v1/studies", body(world(fake=("segfault",))))
        found = until(client, "fake", "failed")
        assert found["exit"] == 1
        assert "the baseline does not run: engine_crash" in found["reason"]


def test_a_worker_that_dies_is_replaced_and_one_that_dies_again_and_again_is_not(
    keeper: Keeper, world: Make
) -> None:
    def kill_worker() -> None:
        (worker,) = keeper.workers()
        worker.kill()

    with keeper.start() as client:
        client.post("/v1/studies", body(world(budget={"trials": 3})))
        wait_for(client, "fake", "stage", stage="ready")
        kill_worker()
        assert until(client, "fake", "finished")["exit"] == 0
        trials = client.get("/v1/studies/fake/trials")
        assert trials[0]["attempt"] == 2
        assert [t["stage"] for t in trials] == ["told"] * len(trials)
        assert not of_folder(keeper.state)

        client.post("/v1/studies", body(world("hung", fake=("hang-start",))))
        for attempt in (1, 2, 3):
            while True:
                trials = client.get("/v1/studies/hung/trials")
                if trials and (trials[0]["stage"], trials[0]["attempt"]) == ("starting", attempt):
                    break
                time.sleep(0.05)
            kill_worker()
        found = until(client, "hung", "failed")
        assert "died 3 times" in found["reason"]
        assert not of_folder(keeper.state)


def test_a_daemon_that_is_told_to_end_ends_its_trials_and_the_next_one_goes_on(
    keeper: Keeper, world: Make
) -> None:
    with keeper.start() as client:
        client.post("/v1/studies", body(world()))
        wait_for(client, "fake", "stage", stage="ready")
    keeper.stop()
    assert not of_folder(keeper.state)
    with Ledger(keeper.state, write=False) as ledger:
        assert ledger.study("fake").status == "stopped"
        assert not ledger.open_launches()
    with keeper.start() as client:
        assert until(client, "fake", "finished")["exit"] == 0


def test_one_daemon_a_state_folder(keeper: Keeper, world: Make) -> None:
    with keeper.start() as client, keeper.start() as again:
        assert client.address == again.address
    with pytest.raises(StateUnusable, match="another tuner"):
        Ledger(keeper.state, write=True)
    done = tuner(keeper.state, "run", "--foreground", str(world().space))
    assert done.returncode == 2
    assert "another tuner works with this state folder" in done.stderr


def test_an_unknown_device_is_refused(keeper: Keeper, world: Make) -> None:
    with keeper.start() as client, pytest.raises(UserError, match="no device '7'"):
        client.post("/v1/studies", body(world(), devices=["7"]))


def test_the_command_line_from_the_space_to_the_file(
    keeper: Keeper, world: Make, tmp_path: Path
) -> None:
    one = world()
    keeper.start().close()
    done = tuner(keeper.state, "run", str(one.space), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "trial 0: ready after" in done.stdout
    assert "deploy it:  fake/out/computility-run.yaml" in done.stdout
    listed = json.loads(tuner(keeper.state, "status", "--json").stdout)
    assert [(s["study"], s["status"]) for s in listed] == [("fake", "finished")]
    assert "healthy" in tuner(keeper.state, "trials", "fake").stdout
    assert "verdict: healthy" in tuner(keeper.state, "show", "fake", "0").stdout
    assert "Application startup complete" in tuner(keeper.state, "logs", "fake", "0", "-f").stdout
    assert tuner(keeper.state, "attach", "fake").returncode == 0
    assert "nothing runs" in tuner(keeper.state, "queue").stdout
    assert tuner(keeper.state, "daemon", "status").returncode == 0
    exported = tuner(keeper.state, "export", "fake", "--trial", "0", "--out", str(tmp_path / "x"))
    assert Path(exported.stdout.strip()).is_file()
    script = tuner(
        keeper.state, "export", "fake", "--format", "shell", "--out", str(tmp_path / "x")
    )
    assert Path(script.stdout.strip()) == tmp_path / "x" / "serve.sh"
    refused = tuner(keeper.state, "export", "fake", "--format", "compose")
    assert refused.returncode == 2
    assert "shell or systemd" in refused.stderr
    assert tuner(keeper.state, "daemon", "stop").returncode == 0
    assert tuner(keeper.state, "daemon", "status").returncode == 1
    # Without a daemon the same is read from the folder itself.
    assert json.loads(tuner(keeper.state, "status", "--json").stdout) == listed
    changed = tuner(keeper.state, "queue", "fake", "--priority", "3")
    assert changed.returncode == 2
    assert "tuner daemon start" in changed.stderr


def test_nothing_feasible_is_exit_3(keeper: Keeper, world: Make) -> None:
    gates = {"success_rate": 1.0, "cache_hit_rate": "off", "ttft_p90_s": "off"}
    score = {"gates": {**gates, "output_tps_p10": 1e9, "weighted": "off"}}
    keeper.start().close()
    done = tuner(keeper.state, "run", str(world(score=score, budget={"trials": 1}).space))
    assert done.returncode == 3, done.stderr
    assert "no trial passed the gates" in done.stdout


def test_a_study_that_is_over_can_be_wanted_again_before_its_worker_has_gone(
    tmp_path: Path,
) -> None:
    books = Books(tmp_path / "state", write=True)
    try:
        with books.write() as (ledger, queue):
            row = fill(ledger, "one", trials=1)
            queue.put(row.id, stood="/")
        nobody: Any = None
        supervisor = Supervisor(books, nobody, nobody)
        task = Task(row.id, row.name, tmp_path, "/", {}, {}, None, ())
        supervisor._workers[row.id] = Worker(task, lambda _: None)
        supervisor.resume(row)
        supervisor._settle(task, 0)
        with books.write() as (ledger, queue):
            assert ledger.study("one").status == "queued"
            assert queue.entry(row.id).deaths == 0
    finally:
        books.close()

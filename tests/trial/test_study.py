"""Whole studies on the fake server: everything above the engine's process is the real thing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.world import ENGINE, World
from tuner.errors import NeedsMending, NothingFeasible, StudyConflict, TunerError
from tuner.export import computility
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.deliver import deliver
from tuner.trial.entry import enter_study
from tuner.trial.events import Happening
from tuner.trial.retry import MAX_STOPS
from tuner.trial.session import work
from tuner.trial.telling import loads_of
from tuner.trial.wishes import Wishes

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engines"), pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(world: World, *, heard: list[Happening] | None = None, stop_at: str = "") -> list[TrialRow]:
    """Run the study of a world to its end, or until some stage of some trial was heard."""
    wishes = Wishes()

    def hear(what: Happening) -> None:
        if heard is not None:
            heard.append(what)
        if stop_at and what.kind == "stage" and f"{what.number} {what.data['stage']}" == stop_at:
            wishes.cancelled.set()

    with Ledger(world.state, write=True) as ledger:
        row = enter_study(ledger, load_space(world.space), world.space)
        work(ledger, row, watchers=[hear], wishes=wishes)
        return ledger.trials(row.id)


def points(trials: list[TrialRow]) -> list[dict[str, Any]]:
    return [t.params for t in trials]


@pytest.mark.slow
def test_what_was_measured_and_what_failed_both_teach(tmp_path: Path) -> None:
    world = World(tmp_path, {"first": [{"kv_space": 64}], "budget": {"trials": 4}}).make()
    trials = run(world)
    assert all(t.stage is Stage.TOLD for t in trials)
    measured = [t for t in trials if t.metrics is not None]
    assert len(measured) >= 3
    for trial in measured:
        assert trial.value == trial.score
        assert trial.constraints is not None
        assert all(v <= 0 for v in trial.constraints.values())
    failed = next(t for t in trials if t.params["kv_space"] == 64)
    assert failed.verdict == "kv_space_does_not_fit"
    assert failed.constraints is not None
    assert failed.constraints["start"] > 0
    assert failed.constraints["memory"] > 0
    assert set(failed.constraints) == set(measured[0].constraints or {})  # the full vector, always


@pytest.mark.slow
def test_no_point_runs_twice_and_the_space_can_be_exhausted(tmp_path: Path) -> None:
    parameters = {
        "seqs": {"flag": "--max-num-seqs", "choices": [1, 2], "baseline": 1},
        "moe": {"env": "ENGINEX_MOE_TINY_IMPL", "choices": ["native", "loop"], "baseline": "loop"},
    }
    heard: list[Happening] = []
    trials = run(
        World(tmp_path, {"parameters": parameters, "budget": {"trials": 30}}).make(), heard=heard
    )
    assert sorted(map(str, points(trials))) == sorted({str(p) for p in points(trials)})
    assert len(trials) == 4
    assert any("every point" in w.data.get("text", "") for w in heard)


@pytest.mark.slow
def test_a_study_is_repeatable_by_its_seed(tmp_path: Path) -> None:
    changes = {
        "budget": {"trials": 4},
        "search": {"sampler": "random", "finalists": {"count": 0}},
    }
    one = run(World(tmp_path / "one", changes).make())
    two = run(World(tmp_path / "two", changes).make())
    other = run(World(tmp_path / "other", {**changes, "seed": 6}).make())
    assert points(one) == points(two)
    assert points(one) != points(other)


def test_a_rule_rejects_without_a_start(tmp_path: Path) -> None:
    rules = [{"forbid": "seqs > 1", "reason": "only one at a time"}]
    trials = run(World(tmp_path, {"rules": rules, "budget": {"trials": 3}}).make())
    rejected = [t for t in trials if t.verdict == "rejected_by_rule"]
    assert rejected
    assert all(t.params["seqs"] > 1 and not t.launched for t in rejected)
    assert rejected[0].judgement is not None
    assert rejected[0].judgement["evidence"][0]["text"] == "only one at a time"


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["0 ready", "1 starting", "1 measured", "2 stopping"])
def test_a_stopped_study_goes_on_as_if_it_had_not_been(tmp_path: Path, stage: str) -> None:
    changes = {
        "budget": {"trials": 4},
        "search": {"sampler": "random", "finalists": {"count": 0}},
    }
    whole = run(World(tmp_path / "whole", changes).make())
    world = World(tmp_path / "stopped", changes).make()
    part = run(world, stop_at=stage)
    assert any(t.stage is not Stage.TOLD for t in part) or len(part) < len(whole)
    assert points(run(world)) == points(whole)


@pytest.mark.slow
def test_finalists_are_measured_again_in_turns_and_the_winner_is_delivered(tmp_path: Path) -> None:
    changes = {
        "first": [{"seqs": 4, "batch": 2048, "moe": "native"}],
        "budget": {"trials": 2},
        "search": {"startup": 1, "finalists": {"count": 1, "rounds": 2}},
    }
    # At its own speed the fake differs between the two points by far more than a busy machine adds.
    world = World(tmp_path, changes, recipe_env={"FAKE_SPEED": "1"}).make()
    heard: list[Happening] = []
    trials = run(world, heard=heard)
    repeats = [t for t in trials if t.origin is Origin.REPEAT]
    # What did nothing may have gone back to the baseline: then that simpler point is the finalist.
    (finalist,) = {t.repeats for t in repeats if t.repeats}
    assert trials[finalist].origin in {Origin.FIRST, Origin.SIMPLER}
    assert [t.repeats for t in repeats][:4] == [0, finalist, finalist, 0]
    assert len(repeats) in {4, 8}
    decision = next(w.data for w in heard if w.kind == "decision")
    assert decision["comparisons"][0]["number"] == finalist
    with Ledger(world.state, write=False) as ledger:
        row = ledger.study("fake")
        first = deliver(ledger, row, finalist, folder=tmp_path / "one").read_bytes()
        again = deliver(ledger, row, finalist, folder=tmp_path / "two").read_bytes()
    assert first == again
    content = computility.parse(first)
    seqs = str(trials[finalist].params["seqs"])
    assert ("--max-num-seqs", seqs) in zip(content.command, content.command[1:], strict=False)
    assert dict(content.env)["ENGINEX_MOE_TINY_IMPL"] == "native"


def test_several_workloads_run_on_one_start_and_share_the_score_by_weight(tmp_path: Path) -> None:
    talk = {
        "kind": "conversations",
        "conversations": 2,
        "turns": 2,
        "concurrency": 2,
        "system_tokens": 64,
        "turn_tokens": 40,
        "output_tokens": 4,
        "weight": 3,
    }
    curve = {
        "kind": "decode_curve",
        "concurrencies": [1, 2],
        "rounds": 1,
        "prompt_tokens": 32,
        "output_tokens": 8,
    }
    changes = {
        "workload": None,
        "workloads": {"talk": talk, "curve": curve},
        "budget": {"trials": 1},
    }
    (trial,) = run(World(tmp_path, changes).make())
    assert trial.attempt == 1
    assert trial.metrics is not None
    levels = trial.metrics["workloads"]
    assert {name: level["weight"] for name, level in levels.items()} == {
        "talk": 3.0,
        "curve-c1": 0.5,
        "curve-c2": 0.5,
    }
    parts = [level["weight"] * level["figures"]["weighted"] for level in levels.values()]
    assert trial.score == pytest.approx(sum(parts) / 4)
    assert trial.constraints is not None
    assert {"talk.population", "curve-c1.population", "curve-c2.population"} < set(
        trial.constraints
    )


def test_a_baseline_that_does_not_run_ends_the_study_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(
        TunerError, match=r"(?s)the baseline does not run: engine_crash.*tuner show fake 0"
    ):
        run(World(tmp_path, fake=("segfault",)).make())


DISK = ",".join(f"0001/attempt-{n}" for n in (1, 2))


def test_a_full_disk_stops_the_study_and_its_point_runs_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"budget": {"trials": 3}}, recipe_env={"FAKE_DISK_FULL": DISK}).make()
    heard: list[Happening] = []
    why = r"(?s)stops at trial 1, host_trouble: .*No space left.*tuner resume fake"
    with pytest.raises(NeedsMending, match=why):
        run(world, heard=heard)
    assert [w.data["verdict"] for w in heard if w.kind == "retry"] == ["host_trouble"]
    with Ledger(world.state, write=False) as ledger:
        first, second = ledger.trials(1)  # and no third was started
        assert (first.stage, second.stage, second.attempt) == (Stage.TOLD, Stage.VERIFIED, 2)
        assert "No space left" in (ledger.study("fake").reason or "")
    trials = run(world)
    assert [t.stage for t in trials] == [Stage.TOLD] * 3
    assert (trials[1].params, trials[1].attempt) == (second.params, 3)
    assert trials[1].verdict == "healthy"


def test_a_point_that_only_stops_the_study_is_passed_over_in_the_end(tmp_path: Path) -> None:
    never = ",".join(f"0001/attempt-{n}" for n in range(1, 9))
    world = World(tmp_path, {"budget": {"trials": 3}}, recipe_env={"FAKE_DISK_FULL": never}).make()
    for _ in range(MAX_STOPS):
        with pytest.raises(NeedsMending):
            run(world)
    trials = run(world)
    assert [t.verdict for t in trials] == ["healthy", "host_trouble", "healthy"]
    assert (trials[1].value, trials[1].feasible) == (None, False)


def test_a_crash_after_cleanups_is_confirmed_before_it_teaches(tmp_path: Path) -> None:
    env = {
        "FAKE_PORT_BUSY": "0001/attempt-1,0001/attempt-2",
        "FAKE_CRASH": "0001/attempt-3",
    }
    trials = run(World(tmp_path, recipe_env=env).make())
    assert (trials[1].verdict, trials[1].attempt) == ("healthy", 4)
    assert trials[1].feasible


def test_nothing_feasible_is_said(tmp_path: Path) -> None:
    gates = {
        "success_rate": 1.0,
        "cache_hit_rate": "off",
        "ttft_p90_s": "off",
        "output_tps_p10": 1e9,
        "weighted": "off",
    }
    with pytest.raises(NothingFeasible):
        run(World(tmp_path, {"score": {"gates": gates}}).make())


def test_the_same_name_with_another_question_is_refused_with_the_difference(tmp_path: Path) -> None:
    world = World(tmp_path, {"budget": {"trials": 1}}).make()
    run(world)
    world.write_space(budget={"trials": 2})
    assert len(run(world)) == 2  # more budget is the same question
    world.write_space(seed=99)
    with pytest.raises(StudyConflict, match="seed"):
        run(world)


def test_a_secret_reaches_the_engine_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "canary-5f1c")
    changes = {"budget": {"trials": 1}}
    world = World(tmp_path, changes).make()
    engine = load_space(world.space).document.model_dump(mode="json")["engine"]
    assert "from_env" not in str(engine)
    space = yaml.safe_load(world.space.read_text())
    space["engine"]["env"] = {"FAKE_SECRET": {"from_env": "MY_TOKEN"}}
    world.space.write_text(yaml.safe_dump(space))
    run(world)
    holding = [
        path
        for folder, _, names in os.walk(world.state)
        for path in (Path(folder) / name for name in names)
        if b"canary-5f1c" in path.read_bytes()
    ]
    assert not holding


def _hanging(tmp_path: Path, switch: str) -> World:
    """A fake whose requests give no token for two seconds once the load has begun, or never."""
    engine = {**ENGINE, "deadlines": {**ENGINE["deadlines"], "tokens": "1s"}}
    changes = {"engine": engine, "budget": {"trials": 1}, "search": {"finalists": {"count": 0}}}
    return World(tmp_path, changes, fake=(switch,), recipe_env={"FAKE_AFTER": "7"}).make()


def test_an_engine_that_hangs_under_load_is_found_by_its_silence(tmp_path: Path) -> None:
    world = _hanging(tmp_path, "hang-in-load")
    with pytest.raises(TunerError, match=r"(?s)the baseline does not run: run_hang"):
        run(world)
    with Ledger(world.state, write=False) as ledger:
        (trial,) = ledger.trials(ledger.study("fake").id)
    assert trial.judgement is not None
    said = " ".join(line["text"] for line in trial.judgement["evidence"])
    assert "no progress for" in said
    assert "1.0 s allowed" in said
    assert trial.attempt == 2  # seen once, it is confirmed once


@pytest.mark.parametrize("switch", ["long-prefill", "queued"])
def test_a_long_prefill_and_a_queue_are_no_hang(tmp_path: Path, switch: str) -> None:
    (trial,) = run(_hanging(tmp_path, switch))
    assert (trial.verdict, trial.attempt) == ("healthy", 1)
    assert trial.score is not None


def test_an_open_loop_is_judged_from_when_its_requests_were_due(tmp_path: Path) -> None:
    row = {"arrival_s": 0, "prompt_tokens": 40, "output_tokens": 20}
    (tmp_path / "trace.jsonl").write_text(f"{json.dumps(row)}\n" * 4)
    load = {"kind": "replay", "file": "trace.jsonl", "mode": "open", "concurrency": 1}
    changes = {"workload": {**load, "request_timeout": "20s"}, "budget": {"trials": 1}}
    world = World(tmp_path, changes, recipe_env={"FAKE_SPEED": "0.4"}).make()
    (trial,) = run(world)
    assert trial.metrics is not None
    figures = trial.metrics["workloads"]["main"]["figures"]
    assert figures["send_lag_max_s"] > 0.3  # three answers of 20 tokens came first
    assert figures["ttft_max_s"] > figures["send_lag_max_s"]
    with Ledger(world.state, write=False) as ledger:
        told = loads_of(ledger, ledger.study("fake"), trial)["main"]
    bucket = next(b for b in told["buckets"] if b["count"])
    assert bucket["ttft_s"]["maximum"] == pytest.approx(figures["ttft_max_s"])

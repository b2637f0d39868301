from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.fakes.world import World
from tests.trial.factory import trial
from tuner.errors import StateUnusable, StudyConflict, TelemetryLost
from tuner.search.keys import key
from tuner.spec import Context, SearchSpace, assignment, load_space, resolve
from tuner.spec.context import ASSUMED
from tuner.spec.points import completed
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_study
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.telemetry.samples import DeviceSource, NoDevices
from tuner.trial.deliver import decided
from tuner.trial.entry import SPACE_COPY, enter_study, stored_space, study_folder
from tuner.trial.migrate import Migration, plan_migration
from tuner.trial.telling import material

pytestmark = pytest.mark.slow

PARAMETERS: dict[str, Any] = {
    "seqs": {"flag": "--max-num-seqs", "choices": [1, 2, 4], "baseline": 1},
    "batch": {"flag": "--max-num-batched-tokens", "choices": [512, 2048], "baseline": 512},
    "moe": {"env": "ENGINEX_MOE_TINY_IMPL", "choices": ["native", "loop"], "baseline": "loop"},
}


def space(world: World, **changes: Any) -> SearchSpace:
    world.write_space(**{"parameters": PARAMETERS, **changes})
    return load_space(world.space)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path).make()


def told(of: SearchSpace, number: int, written: dict[str, Any], **more: Any) -> TrialRow:
    """A trial of a space, as it is in the ledger when it is over."""
    context = Context.of(of, ASSUMED)
    params = completed(of, written, context)
    fields = {
        "params": params,
        "assignment": assignment(of, params, context),
        "deployment": resolve(of, params, context).as_json(),
        "value": 1.0,
        "score": 1.0,
        "constraints": {"start": -1.0},
        "stage": Stage.TOLD,
        "origin": Origin.BASELINE if number == 0 else Origin.SEARCH,
    }
    return trial(number, **{**fields, **more})


def migrated(old: SearchSpace, new: SearchSpace, *trials: TrialRow) -> Migration:
    return plan_migration(old, new, trials, Context.of(new, ASSUMED))


def test_a_narrower_list_keeps_what_is_still_in_it(world: World) -> None:
    old = space(world)
    rows = [told(old, n, {"seqs": seqs}) for n, seqs in enumerate((1, 2, 4))]
    fewer = {**PARAMETERS, "seqs": {**PARAMETERS["seqs"], "choices": [1, 4]}}
    found = migrated(old, space(world, parameters=fewer), *rows)
    assert sorted(found.carried) == [0, 2]
    assert found.carried[0].origin is Origin.BASELINE
    assert found.carried[2].origin is Origin.SEARCH
    assert found.carried[2].assignment["seqs"] == 1  # the second of the list now
    assert found.history == {1: "seqs = 2 is not in this search space, whose values there are 1, 4"}
    assert found.words.endswith("2 of 3 trials still count, 1 are kept as history")


def test_a_parameter_that_became_fixed_keeps_the_trials_that_had_its_value(world: World) -> None:
    old = space(world)
    rows = [told(old, n, {"batch": batch}) for n, batch in enumerate((512, 2048))]
    engine = {**yaml.safe_load(world.space.read_text())["engine"]}
    engine["flags"] = {**engine["flags"], "--max-num-batched-tokens": 2048}
    rest = {name: p for name, p in PARAMETERS.items() if name != "batch"}
    found = migrated(old, space(world, parameters=rest, engine=engine), *rows)
    assert sorted(found.carried) == [1]
    assert found.carried[1].params == {"seqs": 1, "moe": "loop"}
    assert found.carried[1].origin is Origin.BASELINE  # it is what the study starts from now
    assert "no point of the new search space" in found.history[0]


def test_a_new_parameter_keeps_the_trials_whose_deployment_its_baseline_gives(world: World) -> None:
    few = {name: p for name, p in PARAMETERS.items() if name != "moe"}
    old = space(world, parameters=few)
    row = told(old, 0, {})
    # With a baseline the variable is set, which it was not: another deployment.
    assert migrated(old, space(world), row).carried == {}
    off = {"flag": "--enable-prefix-caching", "switch": "bare", "baseline": False}
    found = migrated(old, space(world, parameters={**few, "cache": off}), row)
    assert found.carried[0].params["cache"] is False


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"score": {"gates": {"success_rate": 0.9}}}, "score"),
        ({"memory": {"device_floor": "5%"}}, "memory"),
        ({"workload": None}, "workloads"),
    ],
)
def test_figures_of_another_question_do_not_stand_beside_the_new_ones(
    world: World, changes: dict[str, Any], part: str
) -> None:
    old = space(world)
    if "workload" in changes:
        load = yaml.safe_load(world.space.read_text())["workload"]
        changes = {"workload": {**load, "conversations": 3}}
    found = migrated(old, space(world, **changes), told(old, 0, {}))
    assert found.carried == {}
    assert found.history[0] == f"what is measured has changed: {part}"


def test_rules_decide_anew(world: World) -> None:
    rule = {"require": "seqs <= 2", "reason": "no more is served"}
    old, strict = space(world), space(world, rules=[rule])
    ran = told(old, 1, {"seqs": 4})
    found = migrated(old, strict, told(old, 0, {}), ran)
    assert found.history == {1: "a rule forbids it now: no more is served"}
    rejected = told(strict, 1, {"seqs": 4}, attempt=0, verdict="rejected_by_rule", score=None)
    assert migrated(strict, old, rejected).history == {1: "the rule that forbade it is gone"}
    assert sorted(migrated(strict, strict, rejected).carried) == [1]


def test_what_taught_nothing_and_repeats_are_history(world: World) -> None:
    old = space(world)
    rows = [
        told(old, 1, {"seqs": 2}, origin=Origin.REPEAT, repeats=0, block=0),
        told(old, 2, {"seqs": 4}, value=None, verdict="host_trouble"),
        told(old, 3, {"batch": 2048}, stage=Stage.STOPPING),
    ]
    assert sorted(migrated(old, space(world, seed=9), *rows).history) == [1, 2, 3]


def test_two_trials_that_become_one_point_count_once(world: World) -> None:
    old = space(world)
    rows = [told(old, 0, {}), told(old, 1, {})]
    found = migrated(old, space(world, seed=9), *rows)
    assert sorted(found.carried) == [0]
    assert found.history == {1: "it is the same point as trial 0 now"}


# --- in the ledger -------------------------------------------------------------------------------


def put(ledger: Ledger, study: int, row: TrialRow) -> None:
    planned = ledger.plan(
        study,
        origin=row.origin,
        params=row.params,
        assignment=row.assignment,
        deployment=row.deployment,
    )
    verified = ledger.advance(planned, Stage.VERIFIED, verdict="healthy")
    ledger.advance(verified, Stage.TOLD, value=1.0, score=1.0, feasible=True, constraints={})


def test_the_study_goes_on_under_its_name_and_keeps_its_history(world: World) -> None:
    old = space(world)
    fewer = {**PARAMETERS, "seqs": {**PARAMETERS["seqs"], "choices": [1, 4]}}
    with Ledger(world.state, write=True) as ledger:
        row = enter_study(ledger, old, world.space)
        for number, seqs in enumerate((1, 2, 4)):
            put(ledger, row.id, told(old, number, {"seqs": seqs}))
        ledger.note(row.id, "decision", {"winner": 1, "comparisons": []})
        assert material(ledger, row).decision == {"winner": 1, "comparisons": []}
        new = space(world, parameters=fewer)
        with pytest.raises(StudyConflict, match=r"(?s)choices.*go on with --migrate"):
            enter_study(ledger, new, world.space)
        assert len(ledger.trials(row.id)) == 3
        after = enter_study(ledger, new, world.space, migrate=True)
        assert (after.id, after.fingerprint) == (row.id, new.fingerprint)
        assert [t.number for t in ledger.trials(row.id)] == [0, 2]
        assert [t.number for t in ledger.trials(row.id, history=True)] == [0, 1, 2]
        assert (
            ledger.trial(row.id, 1).history
            == "seqs = 2 is not in this search space, whose values there are 1, 4"
        )
        assert ledger.trial(row.id, 2).assignment == {**told(old, 2, {}).assignment, "seqs": 1}  # type: ignore[dict-item]
        assert decided(ledger, after) is None  # that was decided among other points
        assert material(ledger, after).decision is None
        said = ledger.events(row.id, kinds=["migrated"])[0].data
        assert said["before"]["fingerprint"] == old.fingerprint
        assert said["carried"] == [0, 2]
        assert (
            ledger.plan(
                row.id, origin=Origin.SEARCH, params={}, assignment=None, deployment={}
            ).number
            == 3
        )
        assert stored_space(ledger, after).fingerprint == new.fingerprint
        assert enter_study(ledger, new, world.space).id == row.id  # it is the same study now
    with Ledger(world.state, write=True) as ledger:
        assert len(ledger.trials(row.id)) == 3


def test_what_looks_at_the_devices_is_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[DeviceSource] = []

    class Source(NoDevices):
        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr("tuner.trial.entry.detect", lambda: SimpleNamespace(source=Source()))
    with Ledger(world.state, write=True) as ledger:
        enter_study(ledger, space(world), world.space)
        enter_study(ledger, space(world, seed=9), world.space, migrate=True)
        assert len(closed) == 1
        monkeypatch.setattr("tuner.trial.entry.detect_hardware", _lost)
        with pytest.raises(TelemetryLost):
            enter_study(ledger, space(world, seed=10), world.space, migrate=True)
    assert len(closed) == 2


def _lost(_: object) -> None:
    raise TelemetryLost("the driver does not answer")


def test_a_kill_right_after_the_ledger_took_the_new_space_changes_nothing(world: World) -> None:
    old = space(world)
    with Ledger(world.state, write=True) as ledger:
        row = enter_study(ledger, old, world.space)
        copy = study_folder(ledger, row.name) / SPACE_COPY
        kept = copy.read_bytes()
        new = space(world, seed=9)
        after = enter_study(ledger, new, world.space, migrate=True)
        for damage in (lambda: copy.write_bytes(kept), copy.unlink, lambda: copy.write_text("{")):
            damage()
            assert stored_space(ledger, after).fingerprint == new.fingerprint
        world.write_space(parameters=PARAMETERS, seed=9, budget={"trials": 77})
        newest = load_space(world.space)
        row = enter_study(ledger, newest, world.space)
        assert stored_space(ledger, row).budget.trials == 77


def test_a_study_that_somebody_works_on_is_left_alone(world: World) -> None:
    old = space(world)
    with Ledger(world.state, write=True) as ledger:
        row = enter_study(ledger, old, world.space)
        new = space(world, seed=9)
        with (
            hold_study(study_folder(ledger, row.name)),
            pytest.raises(StateUnusable, match="works on the study"),
        ):
            enter_study(ledger, new, world.space, migrate=True)
        assert ledger.study("fake").fingerprint == old.fingerprint
    shutil.rmtree(world.state)


def test_keys_of_points_are_those_of_the_sampler(world: World) -> None:
    old = space(world)
    row = told(old, 0, {"seqs": 2})
    found = migrated(old, space(world, seed=9), row)
    assert key(found.carried[0].assignment) == key(row.assignment or {})

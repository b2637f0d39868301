"""Quality before speed: whole studies on fake servers of which some are fast and wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.world import WORKLOAD, World
from tests.trial.test_study import run
from tuner.errors import TunerError
from tuner.store.ledger import Ledger
from tuner.store.rows import Event, Origin, TrialRow
from tuner.trial.events import Happening
from tuner.trial.probing import quality_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engines"), pytest.mark.timeout(120)]

CORE: dict[str, Any] = {"suite": "core", "timeout": "10s"}
LOUD = "FAKE"
UNHURRIED = {"FAKE_SPEED": "2"}
LONG = {"workload": {**WORKLOAD, "output_tokens": 48}}
"""With both, what a kernel costs is far above what a busy machine adds, and the kernel decides."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def kernels(
    tmp_path: Path, *choices: str, env: dict[str, str] | None = None, **changes: Any
) -> World:
    """A space of kernels alone, the slow one the baseline."""
    moe = {"env": "ENGINEX_MOE_TINY_IMPL", "choices": ["loop", *choices], "baseline": "loop"}
    base = {"parameters": {"moe": moe}, "budget": {"trials": 1 + len(choices)}, "quality": CORE}
    return World(tmp_path, {**base, **changes}, recipe_env=env or {}).make()


def faults(
    tmp_path: Path, *switches: str, env: dict[str, str] | None = None, **changes: Any
) -> World:
    """A space whose only parameter is what the server does wrong; at the baseline nothing."""
    fault = {"env": "FAKE", "choices": ["none", *switches], "baseline": "none"}
    base = {
        "parameters": {"fault": fault},
        "budget": {"trials": 1 + len(switches)},
        "quality": CORE,
    }
    return World(tmp_path, {**base, **changes}, recipe_env=env or {}).make()


def events(world: World) -> list[Event]:
    with Ledger(world.state, write=False) as ledger:
        return ledger.events(ledger.study("fake").id)


def tries(world: World, trial: TrialRow) -> int:
    """How often a trial failed for what it is in the end; what stood in the way is not counted."""
    again = [e for e in events(world) if e.kind == "retry" and e.number == trial.number]
    return 1 + len([e for e in again if e.data["verdict"] == trial.verdict])


def of(trials: list[TrialRow], **params: str) -> TrialRow:
    return next(t for t in trials if t.params == params)


def proof(trial: TrialRow) -> str:
    return "\n".join(p["text"] for p in (trial.judgement or {})["evidence"])


@pytest.mark.parametrize("match", ["distance", "exact", "first"])
def test_a_wrong_kernel_that_is_faster_than_all_others_does_not_win(
    tmp_path: Path, match: str
) -> None:
    world = kernels(
        tmp_path,
        "native",
        "wrong",
        quality={**CORE, "answers": {"match": match}},
        search={"startup": 1, "finalists": {"count": 2, "rounds": 2}},
    )
    heard: list[Happening] = []
    trials = run(world, heard=heard)
    wrong, native = of(trials, moe="wrong"), of(trials, moe="native")
    assert wrong.verdict == "answers_differ"
    assert wrong.metrics is None  # it was never put under load
    assert not wrong.feasible
    assert wrong.attempt == 1, [e.data for e in events(world) if e.kind == "retry"]
    assert wrong.value == 0
    assert wrong.constraints is not None
    assert wrong.constraints["start"] > 0
    assert native.verdict == "healthy"
    decision = next(h.data for h in heard if h.kind == "decision")
    assert decision["winner"] != wrong.number
    assert wrong.number not in {c["number"] for c in decision["comparisons"]}


def test_without_the_oracle_it_would_win(tmp_path: Path) -> None:
    off = {"suite": "off", "answers": {"match": "off"}}
    trials = run(kernels(tmp_path, "native", "wrong", env=UNHURRIED, quality=off, **LONG))
    wrong, native = of(trials, moe="wrong"), of(trials, moe="native")
    assert wrong.feasible
    assert (wrong.score or 0) > (native.score or 0)


def test_kernels_that_only_round_pass_and_their_distance_is_kept(tmp_path: Path) -> None:
    trials = run(kernels(tmp_path, "native", "bmm"))
    for trial in trials:
        assert trial.verdict == "healthy"
        assert trial.metrics is not None
    answers = [(t.metrics or {})["quality"]["answers"] for t in trials[1:]]
    assert all(0 < found["worst"] <= 0.01 for found in answers)
    assert all(found["problem"] is None for found in answers)


def test_what_an_engine_showed_is_in_the_ledger_and_the_baseline_once_for_all(
    tmp_path: Path,
) -> None:
    world = kernels(tmp_path, "native")
    trials = run(world)
    kept = events(world)
    (reference,) = [e for e in kept if e.kind == "reference"]
    assert reference.number == 0
    assert set(reference.data["sheet"]) >= {"alone/sea", "crowd/sea", "alone/long"}
    showed = quality_of(kept, 1)
    assert showed is not None
    assert {p["outcome"] for p in showed["probes"] if p["need"] == "required"} == {"passed"}
    assert (trials[1].metrics or {})["quality"]["after"]["problem"] is None


def test_one_bad_request_that_kills_the_engine_is_found_before_the_load(tmp_path: Path) -> None:
    world = faults(tmp_path, "n2-kills")
    trials = run(world)
    killed = of(trials, fault="n2-kills")
    assert killed.verdict == "engine_crash"
    assert killed.metrics is None
    assert tries(world, killed) == 2  # confirmed, and then asked one by one
    assert "it was asked: n_2" in proof(killed).splitlines()


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        ("accepts-bad", "probe bad_body: a body that is no JSON: status 500"),
        ("no-json", "probe json_object: status 500: the grammar backend is not there"),
        ("one-choice", "probe n_2: 1 choices where 2 were asked for"),
    ],
)
def test_a_failed_probe_makes_a_trial_unhealthy(tmp_path: Path, switch: str, words: str) -> None:
    world = faults(tmp_path, switch)
    trials = run(world)
    failed = of(trials, fault=switch)
    assert failed.verdict == "quality_failed"
    assert tries(world, failed) == 2
    assert not failed.feasible
    assert words in proof(failed)


@pytest.mark.parametrize("need", ["allowed", "off"])
def test_what_a_deployment_does_not_need_is_no_fault(tmp_path: Path, need: str) -> None:
    quality = {**CORE, "probes": {"n_2": need}}
    trials = run(faults(tmp_path, "one-choice", quality=quality))
    assert of(trials, fault="one-choice").verdict == "healthy"


def test_what_the_baseline_cannot_do_is_no_fault_of_the_others(tmp_path: Path) -> None:
    world = World(tmp_path, {"quality": CORE, "budget": {"trials": 2}}, fake=("one-choice",)).make()
    assert {t.verdict for t in run(world)} == {"healthy"}


def test_a_baseline_that_fails_what_is_required_ends_the_study_with_the_reason(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"quality": CORE}, fake=("accepts-bad",)).make()
    with pytest.raises(
        TunerError, match=r"(?s)the baseline does not run: quality_failed.*quality\.probes"
    ):
        run(world)


@pytest.mark.parametrize(
    ("switch", "verdict", "words"),
    [
        ("nan-logprobs", "non_finite", "the log-probability of token 0 is nan"),
        ("nan-in-log", "non_finite", "NaN in prefill"),
        ("wears-out", "answers_differ", "after the load, log-probabilities differ"),
        ("garbage-in-load", "quality_failed", "of the answers repeat another one"),
    ],
)
def test_what_goes_wrong_under_load_takes_the_score_back(
    tmp_path: Path, switch: str, verdict: str, words: str
) -> None:
    world = faults(
        tmp_path,
        switch,
        env={"FAKE_AFTER": "4" if "garbage" in switch else "14"},
        quality={
            "suite": "off",
            "answers": {"match": "off" if "garbage" in switch else "distance"},
        },
    )
    trial = of(run(world), fault=switch)
    assert trial.verdict == verdict
    assert not trial.feasible
    assert trial.value == 0
    assert words in proof(trial)


def test_answers_survive_a_stop_and_a_resume(tmp_path: Path) -> None:
    world = kernels(tmp_path, "native", "wrong")
    run(world, stop_at="1 starting")
    trials = run(world)
    assert of(trials, moe="wrong").verdict == "answers_differ"
    assert len([e for e in events(world) if e.kind == "reference"]) == 1


def test_a_repeat_is_asked_for_its_answers_and_not_the_probes_again(tmp_path: Path) -> None:
    search = {"startup": 1, "finalists": {"count": 1, "rounds": 1}}
    world = kernels(tmp_path, "native", env=UNHURRIED, search=search, **LONG)
    trials = run(world)
    kept = {e.number: e.data for e in events(world) if e.kind == "quality"}
    repeats = [t for t in trials if t.origin is Origin.REPEAT]
    assert len(repeats) == 4
    for trial in trials:
        assert bool(kept[trial.number]["probes"]) == (trial not in repeats)
    assert all(kept[t.number]["answers"]["problem"] is None for t in repeats)

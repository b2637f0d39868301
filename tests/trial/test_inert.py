from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.world import World
from tests.spec.conftest import filled
from tests.trial.factory import trial
from tests.trial.test_study import run
from tuner.score.inert import Effect, ParameterEffect
from tuner.score.noise import Noise
from tuner.spec import SearchSpace, parse_space
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin
from tuner.trial.exercise import Exercise
from tuner.trial.inert import Inert, Seen, effects_of, inert_parameters

SPACE = """
parameters:
  moe: {env: ENGINEX_MOE_TINY_IMPL, choices: [loop, bmm, native], baseline: loop}
  moe_max: {env: ENGINEX_MOE_TINY_MAX, choices: [1, 2, 4, 16], baseline: 4}
  batch: {flag: --max-num-batched-tokens, choices: [64, 512, 4096], baseline: 4096}
  seqs: {flag: --max-num-seqs, choices: [1, 3, 8, 64], baseline: 8}
  capture: {flag: --max-seq-len-to-capture, choices: [1024, 8192], baseline: 1024}
  kv: {env: VLLM_CPU_KVCACHE_SPACE, choices: [1, 4], baseline: 1}
  swap: {flag: --swap-space, choices: [0, 4], baseline: 4}
  block: {flag: --block-size, choices: [16, 32], baseline: 16}
"""
BASE = {
    "moe": "loop",
    "moe_max": 4,
    "batch": 4096,
    "seqs": 8,
    "capture": 1024,
    "kv": 1,
    "swap": 4,
    "block": 16,
}
COUNTS = Exercise(
    steps={1: 90, 2: 5, 64: 1, 512: 2}, variant_steps=95, largest=512, tokens=9000, preemptions=0
)


@pytest.fixture
def space(tmp_path: Path) -> SearchSpace:
    return parse_space(filled(SPACE), tmp_path / "space.yaml")


def seen_at(kv_tokens: int | None, counts: Exercise = COUNTS, **params: Any) -> Seen:
    return Seen({**BASE, **params}, counts, eager=True, kv_tokens=kv_tokens)


def found(
    space: SearchSpace, counts: Exercise = COUNTS, *, eager: bool = True, **params: Any
) -> dict[str, Inert]:
    here = Seen({**BASE, **params}, counts, eager, 10_000)
    there = Seen(BASE, COUNTS, eager, 10_000)
    return {i.name: i for i in inert_parameters(space, here, there, {}, None)}


def test_a_limit_that_no_step_lies_between_is_inert(space: SearchSpace) -> None:
    inert = found(space, moe_max=16)
    assert inert["moe_max"].reason == "no step had more than 4 and at most 16 tokens"
    assert inert["moe_max"].told
    assert (inert["moe_max"].value, inert["moe_max"].baseline) == (16, 4)
    assert "moe_max" in found(space, moe_max=2)  # none had 3 or 4
    assert "moe_max" not in found(space, moe_max=1)
    assert "moe_max" not in found(space, Exercise(), moe_max=16)  # nothing is known


def test_a_variant_that_never_ran(space: SearchSpace) -> None:
    none_small = Exercise(steps={512: 4}, variant_steps=0, largest=512)
    assert "moe" in found(space, none_small, moe="bmm")
    assert "moe" not in found(space, none_small, moe="native")  # the baseline's might have
    assert "moe" not in found(space, moe="bmm")


def test_a_step_budget_that_no_step_filled(space: SearchSpace) -> None:
    small = Exercise(steps={1: 9, 300: 1}, largest=512)
    assert "batch" not in found(space, small, batch=512)  # a step may have been cut there
    assert "batch" in found(space, Exercise(steps={256: 1}, largest=256), batch=512)
    assert "batch" not in found(space, Exercise(), batch=512)


def test_seats_that_nobody_took(space: SearchSpace) -> None:
    assert "at most 3 requests" in found(space, seqs=64)["seqs"].reason
    assert "seqs" in found(space, seqs=3)
    assert "seqs" not in found(space, seqs=1)


def test_graphs_that_are_off(space: SearchSpace) -> None:
    assert "capture" in found(space, capture=8192)
    assert "capture" not in found(space, capture=8192, eager=False)


def test_a_cache_that_everything_fits_into(space: SearchSpace) -> None:
    assert "all 9,000 tokens" in _kv(space, here=40_000, there=10_000)["kv"].reason
    assert "kv" not in _kv(space, here=40_000, there=8_000)
    assert "kv" not in _kv(space, here=None, there=10_000)
    busy = Exercise(tokens=9000, preemptions=2)
    assert "kv" not in _kv(space, here=40_000, there=10_000, counts=busy)


def _kv(
    space: SearchSpace, *, here: int | None, there: int | None, counts: Exercise = COUNTS
) -> dict[str, Inert]:
    one, base = seen_at(here, counts, kv=4), seen_at(there)
    return {i.name: i for i in inert_parameters(space, one, base, {}, None)}


def test_what_nothing_tells_of_is_left_to_its_effect(space: SearchSpace) -> None:
    assert found(space, block=32) == {}
    here, there = seen_at(None, block=32), seen_at(None)
    inside = ParameterEffect(Effect.INSIDE_NOISE, 0.01, 0.04, 6)
    for effect, df, expected in (
        (inside, 5, True),
        (inside, 1, False),  # so few runs call everything noise
        (ParameterEffect(Effect.INERT, 0.001, 0.01, 6), 1, True),
        (ParameterEffect(Effect.SEEN, 0.2, 0.3, 6), 9, False),
        (ParameterEffect(Effect.NOT_COMPARED, None, None, 0), 9, False),
    ):
        inert = inert_parameters(space, here, there, {"block": effect}, Noise(0.02, df))
        assert bool(inert) is expected, effect
        assert not any(i.told for i in inert)


def test_equal_values_and_parameters_that_one_point_lacks_are_no_question(
    space: SearchSpace,
) -> None:
    assert found(space) == {}
    here = Seen({"moe": "native"}, COUNTS, eager=True, kv_tokens=None)
    assert inert_parameters(space, here, seen_at(None), {}, None) == []


def test_effects_are_taken_over_trials_and_their_own_repeats(space: SearchSpace) -> None:
    rows = [
        trial(0, origin=Origin.BASELINE, params=BASE, score=100.0),
        trial(1, origin=Origin.REPEAT, repeats=0, params=BASE, score=101.0),
        trial(2, params={**BASE, "seqs": 3}, score=150.0),
        trial(3, params={**BASE, "kv": 4}, score=100.5),
        trial(4, origin=Origin.REPEAT, repeats=0, block=0, params=BASE, score=500.0),
        trial(5, params={**BASE, "swap": 0}, score=None, feasible=False),
    ]
    effects = effects_of(space, rows, Noise(0.01, 10))
    assert effects["seqs"].effect is Effect.SEEN
    assert effects["kv"].effect in {Effect.INERT, Effect.INSIDE_NOISE}
    assert effects["swap"].effect is Effect.NOT_COMPARED
    assert effects_of(space, rows, None) == {}


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
@pytest.mark.timeout(120)
def test_what_did_nothing_goes_back_to_the_baseline_and_the_simpler_point_runs_and_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changes = {
        "first": [{"seqs": 2, "kv_space": 2, "moe": "native"}],
        "budget": {"trials": 2},
        "search": {"finalists": {"count": 1, "rounds": 1}},
    }
    world = World(tmp_path, changes, recipe_env={"FAKE_SPEED": "0.3"}).make()
    stopped = run(world, stop_at="2 ready")
    assert stopped[2].origin is Origin.SIMPLER
    trials = run(world)
    simpler = trials[2]
    assert trials[1].params["kv_space"] == 2
    assert simpler.origin is Origin.SIMPLER
    assert simpler.params == {**trials[1].params, "kv_space": 1}
    assert simpler.verdict == "healthy"
    assert {t.repeats for t in trials[3:]} == {0, 2}
    with Ledger(world.state, write=False) as ledger:
        events = ledger.events(ledger.study("fake").id)
    (said,) = [e.data for e in events if e.kind == "simpler"]
    assert said["of"] == 1
    assert [i["name"] for i in said["inert"]] == ["kv_space"]
    assert said["inert"][0]["told"]
    decision = next(e.data for e in events if e.kind == "decision")
    assert [c["number"] for c in decision["comparisons"]] == [2]
    assert decision["winner"] in {0, 2}


def test_an_open_loop_without_a_limit_may_take_every_seat(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("{}\n")
    trace = "workload: {kind: replay, file: t.jsonl, mode: open}\n"
    unlimited = parse_space(filled(SPACE + trace), tmp_path / "space.yaml")
    assert "seqs" not in found(unlimited, seqs=64)
    limited = SPACE + trace.replace("open}", "open, concurrency: 3}")
    assert "seqs" in found(parse_space(filled(limited), tmp_path / "space.yaml"), seqs=64)

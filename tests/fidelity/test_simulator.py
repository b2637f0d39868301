from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fidelity.loads import load, loads, schedulers
from tuner.fidelity.blocks import PoolTooSmall
from tuner.fidelity.simulate import Scheduler, simulate
from tuner.fidelity.simulator import (
    Abstention,
    Candidate,
    Prediction,
    Simulator,
    TrialResult,
    coarsened,
    from_steps,
    from_trials,
    idle,
)
from tuner.fidelity.steptime import Setting, StepModel, StepRecord
from tuner.score.goodput import Limits
from tuner.score.measure import measure
from tuner.score.objective import Objective

SETTING = Setting("tp1", "native")
TRUE = StepModel(
    SETTING,
    {
        "decode step": 0.006,
        "mixed step": 0.010,
        "prefill tokens": 4e-5,
        "decode sequences": 3e-4,
        "KV tokens read": 2e-8,
    },
)
LOAD = load([[(900, 48), (700, 48), (1100, 48)]] * 8, concurrency=4, shared=600)


def candidate(seqs: int = 4, tokens: int = 2048, blocks: int = 4000, **other: str) -> Candidate:
    return Candidate(SETTING, Scheduler(seqs, tokens, blocks), other)


def step_records() -> list[StepRecord]:
    steps = simulate(LOAD, candidate().scheduler, TRUE, one_by_one=True).steps
    return [StepRecord(step.batch, step.seconds) for step in steps]


@pytest.fixture(scope="module")
def fitted() -> Simulator:
    return from_steps({SETTING: step_records()}, {"attention": frozenset({"a", "b"})})


def test_it_finds_the_wall_time_and_the_score_of_what_it_was_fitted_to(fitted: Simulator) -> None:
    found = fitted.predict(candidate(attention="a"), LOAD)
    real = simulate(LOAD, candidate().scheduler, TRUE)
    assert isinstance(found, Prediction)
    assert found.result.wall_s == pytest.approx(real.wall_s, rel=0.01)
    output = sum(r.output_tokens or 0 for r in real.records)
    cached = sum(r.cached_tokens or 0 for r in real.records)
    prompt = sum(r.prompt_tokens or 0 for r in real.records)
    tokens = 16.796 * output + 2.799 * (prompt - cached) + 0.56 * cached
    assert found.score == pytest.approx(tokens / real.wall_s, rel=0.01)
    assert found.coverage > 0.95


def test_it_tells_the_objective_that_is_asked_for(fitted: Simulator) -> None:
    real = simulate(LOAD, candidate().scheduler, TRUE)
    metrics = measure(real.records, wall_s=real.wall_s)
    assert metrics.ttft_s is not None
    goodput = Objective("goodput_rps", Limits(ttft_s=metrics.ttft_s.maximum * 1.1))
    found = fitted.predict(candidate(attention="a"), LOAD, objective=goodput)
    latency = fitted.predict(candidate(attention="a"), LOAD, objective=Objective("ttft_p90_s"))
    assert isinstance(found, Prediction)
    assert isinstance(latency, Prediction)
    assert found.score == pytest.approx(len(real.records) / real.wall_s, rel=0.01)
    assert latency.score == pytest.approx(1 / metrics.ttft_s.p90, rel=0.05)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Candidate(Setting("tp2", "native"), Scheduler(4, 2048, 4000)), "layout 'tp2'"),
        (Candidate(Setting("tp1", "loop"), Scheduler(4, 2048, 4000)), "variant 'loop'"),
        (Candidate(replace(SETTING, eager=True), Scheduler(4, 2048, 4000)), "other settings"),
        (candidate(attention="c"), "attention=c was never seen"),
        (candidate(dtype="fp8"), "dtype=fp8 was never seen"),
    ],
)
def test_of_what_it_never_saw_it_says_nothing(
    fitted: Simulator, asked: Candidate, why: str
) -> None:
    found = fitted.predict(asked, LOAD)
    assert isinstance(found, Abstention)
    assert why in found.why


def test_of_loads_unlike_those_that_it_saw_it_says_nothing(fitted: Simulator) -> None:
    crowd = load([[(900, 200)]] * 64, concurrency=64)
    found = fitted.predict(candidate(seqs=64, blocks=9000), crowd)
    assert isinstance(found, Abstention)
    assert "unlike any that were seen" in found.why


def test_a_pool_that_holds_no_request_is_an_error(fitted: Simulator) -> None:
    with pytest.raises(PoolTooSmall):
        fitted.predict(candidate(blocks=100), LOAD)


def test_it_is_fitted_to_whole_trials_and_orders_others() -> None:
    random = np.random.default_rng(2)

    def run(asked: Candidate) -> float:
        return simulate(LOAD, asked.scheduler, TRUE).wall_s * random.lognormal(0, 0.01)

    known = [candidate(s, t) for s, t in [(1, 512), (1, 2048), (4, 512), (4, 2048), (2, 8192)]]
    simulator = from_trials([TrialResult(c, run(c)) for c in known], LOAD)
    for asked in [candidate(2, 512), candidate(3, 2048), candidate(1, 1024)]:
        found = simulator.predict(asked, LOAD)
        assert isinstance(found, Prediction)
        real = simulate(LOAD, asked.scheduler, TRUE).wall_s
        assert found.result.wall_s == pytest.approx(real, rel=0.08)
    walls = [run(c) for c in known]
    mine = [
        p.result.wall_s for c in known if isinstance(p := simulator.predict(c, LOAD), Prediction)
    ]
    assert np.argsort(mine).tolist() == np.argsort(walls).tolist()


def test_the_values_of_other_settings_are_those_of_the_trials() -> None:
    trials = [TrialResult(candidate(4, attention=name), 10.0) for name in ("a", "b")]
    simulator = from_trials(trials, LOAD)
    assert isinstance(simulator.predict(candidate(4, attention="b"), LOAD), Prediction)
    assert isinstance(simulator.predict(candidate(4, attention="c"), LOAD), Abstention)


def test_idle_time_is_not_taken_for_work() -> None:
    slow = load([[(900, 48), (700, 48)]] * 3, concurrency=1, think=30.0)
    result = simulate(slow, candidate().scheduler, TRUE)
    assert idle(result) == pytest.approx(90)
    simulator = from_trials([TrialResult(candidate(), result.wall_s)], slow)
    found = simulator.predict(candidate(), slow)
    assert isinstance(found, Prediction)
    assert found.result.wall_s == pytest.approx(result.wall_s, rel=0.01)


def test_larger_blocks_change_little_and_are_taken_only_for_long_loads() -> None:
    assert coarsened(LOAD, candidate().scheduler) == candidate().scheduler
    long = load([[(20_000, 200), (9_000, 200)]] * 30, concurrency=6, shared=8_000)
    fine = Scheduler(6, 8192, 20_000)
    coarse = coarsened(long, fine)
    assert coarse.block_tokens > fine.block_tokens
    walls = [simulate(long, s, TRUE).wall_s for s in (fine, coarse)]
    assert walls[1] == pytest.approx(walls[0], rel=0.01)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_larger_blocks_never_make_a_pool_too_small(data: st.DataObject) -> None:
    asked = data.draw(loads)
    scheduler = coarsened(asked, data.draw(schedulers(asked)))
    found = simulate(asked, scheduler, TRUE)
    assert math.isfinite(found.wall_s)

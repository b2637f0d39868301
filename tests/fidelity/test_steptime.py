from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tuner.fidelity.steptime import (
    TERMS,
    Batch,
    Routing,
    Setting,
    StepModel,
    StepRecord,
    Terms,
    fit_steps,
    routed,
    solve,
)

GRAPHS = Setting("tp2", "native", tensor_parallel=2, routing=Routing(64, 8))


def batches(count: int, seed: int = 0) -> list[Batch]:
    random = np.random.default_rng(seed)
    found = []
    for i in range(count):
        prefill = int(random.integers(1, 2000)) if i % 3 == 0 else 0
        seqs = int(random.integers(0 if prefill else 1, 33))
        work = float(prefill * random.integers(1, 3000))
        found.append(Batch(prefill, work, seqs, seqs * int(random.integers(100, 4000))))
    return found


def test_a_step_is_the_sum_of_its_terms() -> None:
    model = StepModel(
        GRAPHS,
        {"decode step": 0.01, "mixed step": 0.03, "KV tokens read": 1e-6, "all-reduce": 1e-4},
    )
    assert model.step(Batch(0, 0.0, 4, 1000)) == pytest.approx(0.01 + 1e-3 + 1e-4 * 4 / 2)
    assert model.step(Batch(100, 0.0, 0, 0)) == pytest.approx(0.03 + 1e-4 * 100 / 2)
    assert model.growth(Batch(0, 0.0, 4, 1000)) == pytest.approx(4e-6)


def test_an_eager_engine_has_one_kind_of_step() -> None:
    eager = Setting("e", eager=True)
    assert eager.mode(Batch(0, 0.0, 4, 10)) == eager.mode(Batch(9, 0.0, 0, 0)) == "eager"
    assert GRAPHS.mode(Batch(0, 0.0, 4, 10)) == "decode"
    assert GRAPHS.mode(Batch(9, 0.0, 4, 10)) == "mixed"


@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_touched_experts_grow_with_tokens_and_never_pass_their_number(skew: float) -> None:
    routing = Routing(64, 8, skew)
    touched = [routing.touched(n) for n in (0, 1, 2, 8, 64, 4096)]
    assert touched[0] == 0
    assert touched == sorted(touched)
    assert touched[-1] <= 64
    assert Routing().touched(5) == 0


def test_one_token_touches_its_own_experts_and_skew_touches_fewer() -> None:
    assert Routing(64, 8).touched(1) == pytest.approx(8)
    assert Routing(64, 8).touched(2) == pytest.approx(64 * (1 - (7 / 8) ** 2))
    assert Routing(64, 8, 1.2).touched(16) < 0.7 * Routing(64, 8).touched(16)


def test_a_fit_finds_the_times_again() -> None:
    true = StepModel(
        GRAPHS,
        {
            "decode step": 0.008,
            "mixed step": 0.02,
            "prefill tokens": 3e-5,
            "prefill attention": 2e-9,
            "decode sequences": 2e-4,
            "KV tokens read": 4e-8,
            "experts": 5e-5,
        },
    )
    noise = np.random.default_rng(5).lognormal(0, 0.02, 400)
    steps = batches(400)
    records = [StepRecord(b, true.step(b) * n) for b, n in zip(steps, noise, strict=True)]
    model = fit_steps(GRAPHS, records)
    fresh = batches(100, seed=9)
    errors = [model.step(b) / true.step(b) - 1 for b in fresh]
    assert np.abs(errors).max() < 0.03
    assert min(model.seconds.values()) >= 0
    assert model.seen is not None
    assert model.seen.steps == 400


def test_what_was_seen_and_what_was_not() -> None:
    model = fit_steps(GRAPHS, [StepRecord(Batch(0, 0.0, n, n * 100), 0.01) for n in (1, 4, 8)])
    assert model.seen is not None
    assert model.seen.covers(Batch(0, 0.0, 6, 650))
    assert model.seen.covers(Batch(0, 0.0, 1, 5))
    assert not model.seen.covers(Batch(0, 0.0, 16, 800))
    assert not model.seen.covers(Batch(50, 0.0, 4, 400))


def test_terms_that_do_not_exist_and_empty_fits_are_refused() -> None:
    with pytest.raises(ValueError, match="no such term: speed"):
        StepModel(GRAPHS, {"speed": 1.0})
    with pytest.raises(ValueError, match="more than 0 seconds"):
        solve(np.zeros((0, len(TERMS))), np.zeros(0))
    with pytest.raises(ValueError, match="more than 0 seconds"):
        solve(np.ones((1, len(TERMS))), np.zeros(1))


def test_there_is_a_column_for_each_term() -> None:
    assert len(Terms(GRAPHS).of(Batch(1, 1.0, 1, 1))) == len(TERMS)


def steps_of(routing: Routing, counts: Sequence[int]) -> list[StepRecord]:
    return [
        StepRecord(Batch(0, 0.0, n, 100.0 * n), 0.01, round(routing.touched(n))) for n in counts
    ]


@pytest.mark.parametrize("skew", [0.0, 0.6, 1.3])
def test_the_skew_is_that_of_the_experts_that_steps_touched(skew: float) -> None:
    true = Routing(64, 8, skew)
    found = routed(Routing(64, 8), steps_of(true, range(1, 33)))
    assert (found.experts, found.top_k) == (64, 8)
    assert found.skew == pytest.approx(skew, abs=0.12)
    assert found.touched(24) == pytest.approx(true.touched(24), rel=0.02)


def test_without_experts_seen_or_with_none_to_see_the_routing_stays_as_assumed() -> None:
    silent = [StepRecord(Batch(0, 0.0, 4, 10.0), 0.01)]
    assert routed(Routing(64, 8, 0.5), silent) == Routing(64, 8, 0.5)
    assert routed(Routing(), steps_of(Routing(64, 8), [4])) == Routing()


def test_a_fit_charges_steps_for_the_experts_that_they_touch() -> None:
    true = Routing(64, 8, 1.0)
    setting = Setting("tp1", routing=Routing(64, 8))
    records = [
        replace(r, seconds=0.001 + 5e-4 * true.touched(r.batch.tokens))
        for r in steps_of(true, range(1, 65))
    ]
    model = fit_steps(setting, records)
    assert model.setting == setting  # by which a candidate finds it
    assert model.routing.skew == pytest.approx(1.0, abs=0.12)
    assert model.seconds["experts"] == pytest.approx(5e-4, rel=0.1)
    errors = [abs(model.step(r.batch) / r.seconds - 1) for r in records]
    assert max(errors) < 0.03
    dense = fit_steps(Setting("tp1"), records)
    assert max(abs(dense.step(r.batch) / r.seconds - 1) for r in records) > 0.1

from __future__ import annotations

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

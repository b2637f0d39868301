from __future__ import annotations

from dataclasses import replace

import pytest

from tests.load.conftest import Mock
from tuner.load.lengths import Uniform
from tuner.load.plan import Closed
from tuner.load.run import run_load
from tuner.load.tokens import ByteTokens
from tuner.load.workloads.decode_curve import DecodeCurve, decode_curve, warm_up

SHAPE = DecodeCurve(concurrencies=(1, 4), rounds=3, prompt_tokens=40, output_tokens=6)
TOKENS = ByteTokens()


def test_a_level_for_each_concurrency() -> None:
    one, four = decode_curve(SHAPE, seed=1, tokens=TOKENS)
    assert (one.workload, four.workload) == ("decode-c1", "decode-c4")
    assert (one.pacing, four.pacing) == (Closed(1), Closed(4))
    assert (one.requests, four.requests) == (3, 12)
    assert all(session.turns[0].max_tokens == 6 for session in four.sessions)


def test_prompts_have_their_length_with_as_much_salt_as_fits() -> None:
    plans = decode_curve(SHAPE, seed=1, tokens=TOKENS)
    assert {plan.salt_words for plan in plans} == {5}
    for plan in plans:
        for session in plan.sessions:
            assert len(session.turns[0].messages[0].content) == 40 - 5 * 4


@pytest.mark.parametrize("prompt", [1, 7, Uniform(3, 200)])
def test_any_length(prompt: int | Uniform) -> None:
    shape = replace(SHAPE, prompt_tokens=prompt, rounds=20)
    for plan in decode_curve(shape, seed=1, tokens=TOKENS):
        for session in plan.sessions:
            text = session.turns[0].messages[0].content
            assert len(text) + 4 * plan.salt_words == session.turns[0].expect_prompt_tokens


def test_no_request_meets_a_warm_cache(mock: Mock) -> None:
    shape = replace(SHAPE, prompt_tokens=200)
    for plan in (
        warm_up(shape, seed=1, tokens=TOKENS, requests=5),
        *decode_curve(shape, seed=1, tokens=TOKENS),
        *decode_curve(shape, seed=1, tokens=TOKENS),
    ):
        salt = f"{plan.workload}-{len(mock.requests())}"
        for record in run_load(plan, mock.endpoint, salt=salt).records:
            assert record.ok
            assert record.output_tokens == 6
            assert record.cached_tokens in (0, 16)  # what the template writes by itself


def test_the_warm_up_runs_at_the_largest_concurrency() -> None:
    plan = warm_up(SHAPE, seed=1, tokens=TOKENS, requests=5)
    assert plan.workload == "decode-warmup"
    assert plan.pacing == Closed(4)
    assert plan.requests == 5


def test_the_fingerprint_is_pinned() -> None:
    assert [plan.fingerprint[:16] for plan in decode_curve(SHAPE, seed=7, tokens=TOKENS)] == PIN


PIN = ["8f9a9d925688fefb", "3b1e4901b15c49d1"]

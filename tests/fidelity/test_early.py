from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.fidelity.early import Counts, Offered, StopRule, may_stop
from tuner.score.gates import Gate, judge

PLAN = Offered(requests=200, prompt_tokens=1000, output_tokens=50)


def steady(
    requests: int, *, prompt: int = 1000, hit: float = 0.5, rate: float = 2.0
) -> list[Counts]:
    """Counts after each request of a load that never changes."""
    return [
        Counts(n, n / rate, n * prompt, int(n * prompt * hit), n * 50)
        for n in range(1, requests + 1)
    ]


def test_a_load_that_has_settled_may_stop() -> None:
    found = may_stop(steady(60), PLAN)
    assert found.stop
    assert "30%" in found.why


def test_a_quarter_is_sent_in_any_case() -> None:
    assert not may_stop(steady(49), PLAN).stop
    assert may_stop(steady(50), PLAN).stop
    assert not may_stop([], PLAN).stop


@pytest.mark.parametrize(
    ("value", "may"), [(0.46, False), (0.54, False), (0.80, True), (0.2, True)]
)
def test_near_a_gate_the_load_runs_in_full(value: float, *, may: bool) -> None:
    gates = judge([Gate("cache_hit_rate", 0.5, at_least=True)], {"cache_hit_rate": value})
    assert may_stop(steady(80), PLAN, gates).stop is may


def test_a_gate_that_is_not_known_yet_keeps_the_load_going() -> None:
    gates = judge([Gate("ttft_p90_s", 5.0, at_least=False)], {})
    found = may_stop(steady(80), PLAN, gates)
    assert not found.stop
    assert "ttft_p90_s_max" in found.why


def test_growing_prompts_are_not_like_the_plan_yet() -> None:
    early = steady(80, prompt=600)
    assert not may_stop(early, PLAN).stop
    assert "600 tokens" in may_stop(early, PLAN).why
    assert may_stop(early, Offered(requests=200)).stop


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        ({"prompt": 2000}, "length of prompts"),
        ({"rate": 1.0}, "rate of requests"),
        ({"hit": 0.9}, "hit rate"),
    ],
)
def test_what_still_moves_keeps_the_load_going(later: dict[str, float], reason: str) -> None:
    before = steady(40)
    new = steady(30, **later)  # type: ignore[arg-type]  # one keyword of the three
    last = before[-1]
    after = [
        Counts(
            last.requests + c.requests,
            last.elapsed_s + c.elapsed_s,
            last.prompt_tokens + c.prompt_tokens,
            last.cached_tokens + c.cached_tokens,
            last.output_tokens + c.output_tokens,
        )
        for c in new
    ]
    found = may_stop([*before, *after], Offered(requests=200))
    assert not found.stop
    assert reason in found.why


def test_a_single_look_is_not_enough() -> None:
    found = may_stop(steady(60)[-1:], PLAN)
    assert not found.stop
    assert "moments" in found.why


@given(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 1), st.integers(1, 90)), min_size=1))
def test_it_never_stops_what_has_not_settled(requests: list[tuple[int, float, int]]) -> None:
    prompts = list(accumulate(p for p, _, _ in requests))
    cached = list(accumulate(int(p * hit) for p, hit, _ in requests))
    outputs = list(accumulate(o for _, _, o in requests))
    history = [
        Counts(n, n * 0.5, p, c, o)
        for n, (p, c, o) in enumerate(zip(prompts, cached, outputs, strict=True), 1)
    ]
    rule = StopRule(least=0.0, apart=0.01)
    found = may_stop(history, Offered(requests=len(requests)), (), rule)
    if found.stop:
        last, before = history[-1], history[-2]
        mean = last.prompt_tokens / last.requests
        assert abs(before.prompt_tokens / before.requests - mean) <= 0.02 * mean

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.score.pareto import Figures, Objectives

BALANCED = Objectives("output_tps", "ttft_p90_s", balance=0.5)


def made(output_tps: float | None, ttft: float | None) -> Figures:
    return {"output_tps": output_tps, "ttft_p90_s": ttft}


RESULTS = {
    "fast": made(100.0, 4.0),
    "even": made(96.0, 2.0),
    "quick": made(50.0, 1.0),
    "beaten": made(90.0, 3.0),
    "unknown": made(200.0, None),
    "broken": made(200.0, 0.0),
}


def test_front_leaves_out_what_is_beaten_or_unknown() -> None:
    assert BALANCED.front(RESULTS) == ("fast", "even", "quick")


@pytest.mark.parametrize(("balance", "expected"), [(0.99, "fast"), (0.6, "even"), (0.1, "quick")])
def test_the_balance_takes_the_winner(balance: float, expected: str) -> None:
    assert Objectives("output_tps", "ttft_p90_s", balance=balance).winner(RESULTS) == expected


@pytest.mark.parametrize(
    ("best", "limit", "expected"),
    [
        ("output_tps", 4.0, "fast"),  # the limit itself is still allowed
        ("output_tps", 3.9, "even"),
        ("output_tps", 0.5, None),
        ("ttft_p90_s", 60.0, "even"),
        ("ttft_p90_s", 10.0, "quick"),
    ],
)
def test_the_limit_takes_the_best_that_keeps_it(
    best: str, limit: float, expected: str | None
) -> None:
    assert (
        Objectives("output_tps", "ttft_p90_s", best=best, limit=limit).winner(RESULTS) == expected
    )


def test_the_limit_is_a_gate_on_the_other_figure() -> None:
    by_rate = Objectives("output_tps", "ttft_p90_s", best="output_tps", limit=2.0).gate
    by_time = Objectives("output_tps", "ttft_p90_s", best="ttft_p90_s", limit=50.0).gate
    assert [str(by_rate), str(by_time)] == ["ttft_p90_s <= 2", "output_tps >= 50"]
    assert BALANCED.gate is None


def test_nothing_has_no_winner() -> None:
    assert BALANCED.front({"unknown": RESULTS["unknown"]}) == ()
    assert BALANCED.winner({}) is None


def test_equal_trials_are_both_told() -> None:
    equal = {"a": made(5.0, 1.0), "b": made(5.0, 1.0), "c": made(5.0, 2.0)}
    assert BALANCED.front(equal) == ("a", "b")


POINTS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12)


@given(POINTS)
def test_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    results = {str(i): made(float(x), float(y)) for i, (x, y) in enumerate(points)}
    expected = {
        str(i)
        for i, (x, y) in enumerate(points)
        if not any(a >= x and b <= y and (a, b) != (x, y) for a, b in points)
    }
    assert set(BALANCED.front(results)) == expected


@given(
    POINTS,
    st.one_of(
        st.builds(lambda b: {"balance": b}, st.floats(0.01, 0.99)),
        st.builds(
            lambda best, limit: {"best": best, "limit": limit},
            st.sampled_from(["output_tps", "ttft_p90_s"]),
            st.floats(1, 6),
        ),
    ),
)
def test_the_best_score_is_the_rules_winner(
    points: list[tuple[int, int]], rule: dict[str, float]
) -> None:
    """What the sampler is told, and what finalists are compared in, is what the rule wants."""
    objectives = Objectives("output_tps", "ttft_p90_s", **rule)  # type: ignore[arg-type]  # mixed values
    results = {str(i): made(float(x), float(y)) for i, (x, y) in enumerate(points)}
    gate = objectives.gate
    kept = {
        name: objectives.score(found) or 0.0
        for name, found in results.items()
        if gate is None
        or (float(found[gate.figure] or 0) - gate.limit) * (1 if gate.at_least else -1) >= 0
    }
    winner = objectives.winner(results)
    if winner is None:
        assert not kept
    else:
        assert kept[winner] == pytest.approx(max(kept.values()))


@pytest.mark.parametrize(
    ("figures", "rule"),
    [
        (("output_tps", "output_tps"), {"balance": 0.5}),
        (("speed", "output_tps"), {"balance": 0.5}),
        (("output_tps", "ttft_p90_s"), {}),
        (("output_tps", "ttft_p90_s"), {"balance": 1.0}),
        (("output_tps", "ttft_p90_s"), {"best": "output_tps"}),
        (("output_tps", "ttft_p90_s"), {"best": "wall_s", "limit": 1.0}),
        (("output_tps", "ttft_p90_s"), {"balance": 0.5, "best": "output_tps", "limit": 1.0}),
    ],
)
def test_impossible_objectives_are_refused(
    figures: tuple[str, str], rule: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match=r"objectives|figure"):
        Objectives(*figures, **rule)  # type: ignore[arg-type]  # mixed values

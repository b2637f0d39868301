from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.score.gates import Gate
from tuner.score.pareto import Objectives
from tuner.score.rank import Standing, standing

BOTH = Objectives("output_tps", "ttft_p90_s")


def made(
    output_tps: float | None, ttft: float | None, success: float = 1.0, gates: tuple[Gate, ...] = ()
) -> Standing:
    figures = {"success_rate": success, "output_tps": output_tps, "ttft_p90_s": ttft}
    return standing(figures, gates, objective="output_tps")


STANDINGS = {
    "fast": made(100.0, 4.0),
    "even": made(96.0, 2.0),
    "quick": made(50.0, 1.0),
    "beaten": made(90.0, 3.0),
    "unknown": made(200.0, None),
    "dead": made(500.0, 0.1, success=0.2),
}


def test_front_leaves_out_what_is_beaten_unknown_or_incomplete() -> None:
    assert BOTH.front(STANDINGS) == ("fast", "even", "quick")


def test_a_failed_gate_is_not_on_the_front() -> None:
    gates = (Gate("ttft_p90_s", 3.0, at_least=False),)
    standings = {"slow": made(100.0, 4.0, gates=gates), "ok": made(50.0, 2.0, gates=gates)}
    assert BOTH.front(standings) == ("ok",)


@pytest.mark.parametrize(
    ("rule", "part", "expected"),
    [
        ("within", 0.0, "fast"),
        ("within", 0.05, "even"),
        ("within", 0.5, "quick"),
        ("within", 1.0, "quick"),
        ("product", 1.0, "fast"),
        ("product", 0.0, "quick"),
        ("product", 0.5, "quick"),
        ("product", 0.6, "even"),
    ],
)
def test_rules(rule: str, part: float, expected: str) -> None:
    objectives = Objectives("output_tps", "ttft_p90_s", rule, part)  # type: ignore[arg-type]  # a str of two
    assert objectives.winner(STANDINGS) == expected


def test_nothing_feasible_has_no_winner() -> None:
    assert BOTH.front({"dead": STANDINGS["dead"]}) == ()
    assert BOTH.winner({}) is None


def test_equal_trials_are_both_told() -> None:
    assert BOTH.front({"a": made(5.0, 1.0), "b": made(5.0, 1.0), "c": made(5.0, 2.0)}) == ("a", "b")


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12))
def test_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    standings = {str(i): made(float(x), float(y)) for i, (x, y) in enumerate(points)}
    expected = {
        str(i)
        for i, (x, y) in enumerate(points)
        if not any(a >= x and b <= y and (a, b) != (x, y) for a, b in points)
    }
    assert set(BOTH.front(standings)) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        ("output_tps", "output_tps", 0.1),
        ("speed", "output_tps", 0.1),
        ("output_tps", "wall_s", 2.0),
    ],
)
def test_impossible_objectives_are_refused(wrong: tuple[str, str, float]) -> None:
    with pytest.raises(ValueError, match=r"objectives|figure|part"):
        Objectives(wrong[0], wrong[1], part=wrong[2])

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.fidelity.agreement import Ladder, Level
from tuner.fidelity.levels import Climb, Decision, spread_anchors

SHORT = Level(name="short", cost=1, leaves_out="long prompts")
MIDDLE = Level(name="middle", cost=3)
REAL = Level(name="real", cost=10)
TWO = Ladder(levels=(SHORT, REAL))
POINTS = [f"p{i}" for i in range(24)]
TRUTH = {p: 10.0 * 1.1**i for i, p in enumerate(POINTS)}


def anchored(factor: float = 1.0, ladder: Ladder = TWO) -> Climb:
    """A study whose five anchors were measured on all levels, the baseline twice on the real one."""
    anchors = spread_anchors(POINTS, 5)
    state = Climb(ladder=ladder, anchors=anchors)
    for point in anchors:
        for level in ladder.levels:
            value = TRUTH[point] if level.name == "real" else TRUTH[point] ** factor
            state = state.record(point, level.name, value)
    return state.record("p0", "real", TRUTH["p0"] * 1.02)


def test_anchors_and_the_real_level() -> None:
    state = Climb(ladder=TWO, anchors=("p0",)).record("p0", "short", 1.0)
    assert state.decide("p0", "short").verdict == "climb"
    assert state.decide("p0", "real").verdict == "finish"


def test_a_level_that_has_shown_nothing_rejects_nobody() -> None:
    state = Climb(ladder=TWO).record("p1", "short", 1.0).record("p2", "short", 9.0)
    found = state.decide("p1", "short")
    assert found.verdict == "climb"
    assert "has not shown" in found.why


def test_what_failed_on_a_level_that_agrees_does_not_climb() -> None:
    state = anchored().record("p1", "short", None)
    assert state.decide("p1", "short") == Decision("hold", "it failed on short")
    assert state.waiting() == []


def test_what_failed_on_a_level_that_may_not_reject_climbs() -> None:
    assert Climb(ladder=TWO).record("p1", "short", None).decide("p1", "short").verdict == "climb"
    held = anchored().record("p1", "short", None)
    for point in ("p8", "p9"):  # both surely the best on the level, and the worst on the real load
        held = held.record(point, "short", 500.0).record(point, "real", 2.0)
    assert "short" in held.retired
    assert ("p1", "real") in held.waiting()


def test_what_falls_on_the_real_load_holds_no_seat_on_the_level() -> None:
    state = Climb(ladder=TWO, anchors=("q0",))
    for i in range(40):  # they agree so well that three that fall do not unsettle the level
        state = state.record(f"q{i}", "short", 1.1**i).record(f"q{i}", "real", 1.1**i)
    state = state.record("q0", "real", 1.01).record("good", "short", 1.1**35.5)
    for i, value in enumerate((None, 300.0, None)):
        state = state.record(f"fell{i}", "short", 1.1 ** (50 + i))
        state = state.record(f"fell{i}", "real", value, feasible=False)
    assert state.agreement("short").standing == "agrees"
    # Four that live are better, and there are five seats of 44.
    assert state.decide("good", "short") == Decision("climb", "number 5 of 41 on short")
    assert state.waiting() == [("good", "real")]
    assert state.record("less", "short", 1.1**34.5).decide("less", "short").verdict == "hold"


@pytest.mark.parametrize("value", [None, 900.0])
def test_a_level_whose_favourites_fall_on_the_real_load_is_retired(value: float | None) -> None:
    state = anchored()
    assert state.agreement("short").standing == "agrees"
    for i in range(4):
        state = state.record(f"fell{i}", "short", 900.0 + i)
        state = state.record(f"fell{i}", "real", value, feasible=False)
    found = state.agreement("short")
    assert (found.standing, found.fallen, found.regret) == ("misleads", 4, 0)
    assert "4 points fell on real" in found.why
    assert "short" in state.retired
    # The best that lives is not lost behind them.
    good = state.record("good", "short", 600.0)
    assert good.decide("good", "short").verdict == "climb"
    assert ("good", "real") in good.waiting()


def test_one_that_falls_unsettles_a_level_and_does_not_refute_it() -> None:
    state = anchored().record("fell", "short", 900.0).record("fell", "real", None)
    found = state.agreement("short")
    assert (found.standing, found.fallen) == ("unproven", 1)
    assert not state.retired
    assert state.record("p3", "short", 1.0).decide("p3", "short").verdict == "climb"
    # One that the level had last anyway says nothing against it.
    last = anchored().record("fell", "short", 1.0).record("fell", "real", None)
    assert last.agreement("short").standing == "agrees"


def test_what_was_ended_for_another_reason_is_no_death() -> None:
    state = anchored().record("cut", "short", 900.0).record("cut", "real", None, cut=True)
    assert state.agreement("short").fallen == 0
    assert "cut" not in dict(state.waiting())


def test_a_point_that_fails_a_gate_on_the_level_stands_below_all_that_keep_it() -> None:
    state = anchored()
    state = state.record("fast", "short", 900.0, feasible=False)
    for i in range(6):
        state = state.record(f"q{i}", "short", TRUTH["p23"] * (1.1 + i / 10))
    assert state.decide("fast", "short").why == "number 12 of 12 on short"
    assert state.decide("q3", "short").verdict == "climb"


def test_a_level_that_agrees_lets_the_best_climb() -> None:
    state = anchored()
    for point in POINTS[1:20]:
        if point not in state.anchors:
            state = state.record(point, "short", TRUTH[point])
    climbing = [p for p in POINTS[1:20] if state.decide(p, "short").verdict == "climb"]
    assert set(climbing) - set(state.anchors) == {"p18", "p19"}
    assert state.decide("p3", "short").why == "number 18 of 21 on short"


def test_what_is_within_the_noise_of_the_edge_climbs() -> None:
    state = anchored()
    for point in POINTS[1:20]:
        if point not in state.anchors:
            state = state.record(point, "short", TRUTH[point])
    noisy = state.record("p2", "short", TRUTH["p2"] * 1.2)  # two runs, 20 % apart
    assert state.decide("p14", "short").verdict == "hold"
    assert noisy.decide("p14", "short").verdict == "climb"


def test_a_level_that_misleads_is_retired_and_frees_what_it_held() -> None:
    state = anchored()
    state = state.record("p7", "short", 0.5)
    assert state.decide("p7", "short").verdict == "hold"
    assert state.waiting() == []
    assert state.entry == "short"
    # Two candidates that looked best on the short level turn out to be the worst.
    for point in ("p8", "p9"):
        state = state.record(point, "short", 500.0).record(point, "real", 2.0)
    assert "short" in state.retired
    assert state.entry == "real"
    assert ("p7", "real") in state.waiting()
    # Whatever comes after, it stays retired.
    for point in POINTS[10:20]:
        state = state.record(point, "short", TRUTH[point]).record(point, "real", TRUTH[point])
    assert state.decide("p7", "short").verdict == "climb"
    assert "rejects nobody" in state.decide("p7", "short").why


def test_an_inverted_level_is_retired_by_its_anchors() -> None:
    assert "short" in anchored(-1.0).retired


def test_three_levels_are_climbed_one_by_one() -> None:
    ladder = Ladder(levels=(SHORT, MIDDLE, REAL))
    state = anchored(ladder=ladder).record("p21", "short", TRUTH["p21"])
    assert state.decide("p21", "short").verdict == "climb"
    assert ("p21", "middle") in state.waiting()
    state = state.record("p21", "middle", TRUTH["p21"])
    assert ("p21", "real") in state.waiting()
    assert "p21" not in dict(state.record("p21", "real", 1.0).waiting())


def test_the_report_says_bias_and_agreement() -> None:
    rows = json.loads(json.dumps(anchored().report(), allow_nan=False))
    assert [row["level"] for row in rows] == ["short", "real"]
    assert rows[0]["leaves_out"] == "long prompts"
    assert rows[0]["standing"] == "agrees"
    assert rows[0]["bias"] == pytest.approx(1.0, abs=0.02)
    # log(1.02) / sqrt(2), times 2.32 for its single degree of freedom.
    assert rows[1]["sigma"] == pytest.approx(0.0325, abs=1e-3)


def test_anchors_are_spread() -> None:
    assert spread_anchors(POINTS, 3) == ("p0", "p12", "p23")
    assert spread_anchors(POINTS[:2], 5) == ("p0", "p1")
    assert spread_anchors([], 3) == ()
    assert spread_anchors(POINTS, 1) == ("p0",)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(POINTS[:6]),
            st.sampled_from(["short", "real"]),
            st.none() | st.floats(0.1, 100),
        ),
        max_size=14,
    )
)
def test_whatever_is_measured(seen: list[tuple[str, str, float | None]]) -> None:
    state = Climb(ladder=TWO, anchors=("p0",))
    for point, level, value in seen:
        before = state
        state = state.record(point, level, value)
        assert set(before.retired) <= set(state.retired)
        assert Climb.model_validate_json(state.model_dump_json()) == state
        assert all(level == "real" for _, level in state.waiting())
        if "short" in state.retired:
            held = [p for p in state.values("short") if state.decide(p, "short").verdict == "hold"]
            assert not held


def climbed(seed: int, *, wrong: bool = False) -> tuple[float, float, Climb]:
    """A whole study with a level: its cost as a part of the full grid's, and its regret."""
    random = np.random.default_rng(seed)
    points = [f"p{i}" for i in range(72)]
    truth = {p: math.exp(random.normal(0, 0.35)) * 100 for p in points}

    def run(point: str, level: str) -> float:
        if level == "real":
            return float(truth[point] * math.exp(random.normal(0, 0.02)))
        own = 1 / truth[point] if wrong else truth[point] * math.exp(random.normal(0, 0.03))
        return float(own * math.exp(random.normal(0, 0.03)))

    queue = [str(p) for p in random.permutation(points)]
    state = Climb(ladder=TWO, anchors=tuple(queue[:5]))
    # The baseline three times, for the noise; everything on the cheap level; then whatever may climb.
    runs = [*[(queue[0], "real")] * 3, *((p, "short") for p in queue)]
    cost = 0.0
    while runs:
        for point, level in runs:
            state = state.record(point, level, run(point, level))
            cost += next(entry.cost for entry in TWO.levels if entry.name == level)
        runs = state.waiting()[:1]
    best = state.values("real")
    found = truth[max(best, key=lambda p: best[p])]
    return cost / (10 * len(points)), 1 - found / max(truth.values()), state


@pytest.mark.slow
def test_a_study_with_levels_finds_a_winner_within_noise_for_a_third() -> None:
    studies = [climbed(seed) for seed in range(10)]
    assert np.mean([cost for cost, _, _ in studies]) < 1 / 3
    assert np.mean([regret for _, regret, _ in studies]) < 0.02
    assert max(regret for _, regret, _ in studies) < 0.06


@pytest.mark.slow
def test_a_wrong_level_costs_and_does_not_mislead() -> None:
    for seed in range(10):
        _, regret, state = climbed(seed, wrong=True)
        assert "short" in state.retired
        assert len(state.values("real")) == 72
        assert regret < 0.06

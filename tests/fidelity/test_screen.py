from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.fidelity.assess import Limits
from tuner.fidelity.screen import draw, plan_anchors, screen

LIMITS = Limits()
names = st.sampled_from([f"p{i}" for i in range(20)])
values = st.dictionaries(names, st.integers(1, 12).map(float), min_size=1)


def layout(point: str) -> str:
    return "abc"[int(point[1:]) % 3]


def test_the_best_quarter_and_the_best_of_each_layout_are_kept() -> None:
    predicted = {f"p{i}": 100.0 - 6 * i for i in range(12)}
    layouts = {p: "far" if p == "p11" else "near" for p in predicted}
    found = screen(list(reversed(predicted)), predicted, layouts, error=0.0, limits=LIMITS)
    assert found.kept == ("p0", "p1", "p2", "p11")
    assert found.deferred == tuple(f"p{i}" for i in range(10, 2, -1))


def test_everything_within_its_own_error_is_kept() -> None:
    predicted = {f"p{i}": 100.0 - i for i in range(40)}
    layouts = dict.fromkeys(predicted, "a")
    found = screen(list(predicted), predicted, layouts, error=0.10, limits=LIMITS)
    assert len(found.kept) == 21  # 100 down to 80, within twice 10 %


def test_the_quarter_is_of_all_points_and_not_of_those_left() -> None:
    predicted = {f"p{i}": 100.0 - 6 * i for i in range(12)}
    layouts = dict.fromkeys(predicted, "a")
    left = [f"p{i}" for i in range(3, 12)]
    assert screen(left, predicted, layouts, error=0.0, limits=LIMITS).kept == ()


def test_failed_points_hold_no_place() -> None:
    predicted = {f"p{i}": 100.0 - 6 * i for i in range(12)}
    layouts = dict.fromkeys(predicted, "a")
    left = [f"p{i}" for i in range(3, 12)]
    found = screen(left, predicted, layouts, error=0.0, failed={"p0", "p1", "p2"}, limits=LIMITS)
    assert found.kept == ("p3", "p4", "p5")


def test_points_that_the_proxy_does_not_know_take_turns_with_the_kept() -> None:
    predicted = {"a": 10.0, "b": 9.9, "c": 1.0}
    layouts = dict.fromkeys(predicted, "x")
    found = screen(["new", "c", "b", "a"], predicted, layouts, error=0.0, limits=LIMITS)
    assert found.kept == ("a", "new", "b")
    assert found.deferred == ("c",)


@given(values, st.lists(names, unique=True, min_size=1), st.floats(0, 0.5))
def test_no_point_is_lost_and_equals_stay_together(
    predicted: dict[str, float], waiting: list[str], error: float
) -> None:
    layouts = {p: layout(p) for p in predicted}
    found = screen(waiting, predicted, layouts, error=error, limits=LIMITS)
    assert sorted((*found.kept, *found.deferred)) == sorted(waiting)
    kept = {(layouts[p], predicted[p]) for p in found.kept if p in predicted}
    assert not kept & {(layouts[p], predicted[p]) for p in found.deferred}
    if top := max(predicted.values()):
        assert all(p in found.kept for p in waiting if predicted.get(p) == top)


@given(values, st.text(max_size=4))
def test_anchors_cover_every_layout(predicted: dict[str, float], seed: str) -> None:
    layouts = {p: layout(p) for p in predicted}
    found = plan_anchors(predicted, layouts, "base", limits=LIMITS, repeats=3, seed=seed)
    assert found[0] == "base"
    assert found.count("base") == 3
    assert len(set(found)) == len(found) - 2
    assert {layouts[p] for p in found if p in layouts} == set(layouts.values())
    assert (
        max(predicted, key=lambda p: predicted[p]) in found
        or len({p for p in predicted if predicted[p] == max(predicted.values())}) > 1
    )
    assert len(set(found)) >= min(LIMITS.anchors, len(predicted) + 1)


def test_another_point_may_be_the_one_that_is_repeated() -> None:
    predicted = {"a": 3.0, "b": 2.0, "c": 1.0}
    found = plan_anchors(
        predicted, dict.fromkeys(predicted, "x"), "c", limits=LIMITS, again="a", repeats=3
    )
    assert (found.count("a"), found.count("c"), found[-1]) == (3, 1, "a")


def test_a_draw_is_the_same_when_asked_the_same() -> None:
    points = [f"p{i}" for i in range(50)]
    assert draw(points, "a", 1) == draw(points, "a", 1)
    assert len({draw(points, "a", n) for n in range(200)}) > 40

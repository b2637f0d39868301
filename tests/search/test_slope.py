from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.slope import fit
from tuner.spec.axes import Axis

AXES = (Axis("kv", "ordinal", 0, 9), Axis("seqs", "ordinal", 0, 4))
POINTS = [{"kv": kv, "seqs": seqs} for kv, seqs in itertools.product(range(10), range(5))]


def violation(point: dict[str, int]) -> float:
    """A memory that is full where 9 of these are asked for."""
    return (point["kv"] + point["seqs"] - 9 + 0.5) / 10


def told(*places: int) -> list[tuple[dict[str, int], dict[str, float]]]:
    return [(POINTS[at], {"memory": violation(POINTS[at])}) for at in places]


def test_nothing_is_expected_of_a_space_of_which_one_side_was_seen() -> None:
    assert fit(AXES, []).worst(POINTS[0]) == 0.0
    assert fit(AXES, told(0, 1, 7)).worst(POINTS[-1]) == 0.0


def test_the_edge_is_known_after_a_few_graded_points() -> None:
    slope = fit(AXES, told(0, 4, 11, 22, 28, 34, 41, 46, 49))
    wrong = [p for p in POINTS if slope.worst(p) <= 0 < violation(p)]
    assert wrong == []
    assert sum(slope.worst(p) <= 0 for p in POINTS) > sum(violation(p) <= 0 for p in POINTS) / 2


def test_far_from_all_that_was_seen_it_is_careful() -> None:
    slope = fit(AXES, told(0, 49))
    assert slope.worst(POINTS[0]) < 0 < slope.worst(POINTS[49])
    assert slope.worst(POINTS[45]) > 0  # many seqs were never tried with a small kv
    more = fit(AXES, told(0, 49, 45, 4, 40, 9))
    assert more.worst(POINTS[4]) < 0


def test_the_worst_of_several_constraints_counts() -> None:
    lessons = [(p, {"memory": violation(p), "ttft": -violation(p)}) for p in POINTS[::3]]
    slope = fit(AXES, lessons)
    assert slope.worst(POINTS[0]) > 0
    assert slope.worst(POINTS[-1]) > 0


@given(st.lists(st.tuples(st.sampled_from(POINTS), st.floats(-1, 1)), max_size=20))
def test_whatever_was_told_the_answer_is_a_number(
    lessons: list[tuple[dict[str, int], float]],
) -> None:
    slope = fit(AXES, [(point, {"x": value}) for point, value in lessons])
    assert all(slope.worst(p) == pytest.approx(slope.worst(p)) for p in POINTS)

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.quality.agreement import Distance, agree, distance
from tuner.quality.answers import Spoken
from tuner.spec.quality import Answers

BY_DISTANCE = Answers()


def spoken(
    tokens: str, logprobs: list[float], likely: list[dict[str, float]] | None = None
) -> Spoken:
    tops = likely or [{token: value} for token, value in zip(tokens, logprobs, strict=True)]
    return Spoken(tokens, tuple(tokens), tuple(logprobs), tuple(tops))


A = spoken("abc", [-1.0, -2.0, -3.0])


def test_equal_answers_are_no_distance_apart() -> None:
    assert distance(A, A) == Distance((0.0, 0.0, 0.0), None)
    found = agree({"x": A}, {"x": A}, BY_DISTANCE)
    assert (found.problem, found.mean, found.worst, found.same, found.compared) == (
        None,
        0,
        0,
        1,
        1,
    )


def test_rounding_passes_and_its_size_is_told() -> None:
    rounded = spoken("abc", [-1.004, -2.0, -2.998])
    found = agree({"x": rounded}, {"x": A}, BY_DISTANCE)
    assert found.problem is None
    assert found.mean == pytest.approx(0.002)
    assert found.worst == pytest.approx(0.004)


def test_where_two_tokens_are_nearly_as_likely_answers_may_part() -> None:
    one = spoken("ab", [-1.0, -2.00], [{"a": -1.0}, {"b": -2.00, "c": -2.01}])
    other = spoken("ac", [-1.0, -2.00], [{"a": -1.0}, {"c": -2.00, "b": -2.015}])
    found = distance(one, other)
    assert found.parted == 1
    assert list(found.places) == pytest.approx([0.0, 0.015])  # the larger of the two leads
    assert agree({"x": one}, {"x": other}, BY_DISTANCE).problem is None


def test_a_clear_lead_for_another_token_is_another_answer() -> None:
    one = spoken("b", [-0.5], [{"b": -0.5, "c": -2.5}])
    other = spoken("c", [-0.1], [{"c": -0.1, "b": -4.0}])
    found = agree({"x": one}, {"x": other}, BY_DISTANCE)
    assert found.problem is not None
    assert "3.9" in found.problem
    assert "'b'" in found.problem


def test_a_token_that_is_not_among_the_likely_ones_is_at_least_as_far_as_the_last_of_them() -> None:
    one = spoken("b", [-0.5], [{"b": -0.5, "d": -1.7}])
    other = spoken("c", [-0.4], [{"c": -0.4, "d": -0.9}])
    assert list(distance(one, other).places) == pytest.approx([1.2])


def test_what_comes_after_the_parting_is_not_compared() -> None:
    one = spoken("abz", [-1.0, -2.0, -9.0], [{"a": -1.0}, {"b": -2.0, "c": -2.0}, {"z": -9.0}])
    other = spoken("acq", [-1.0, -2.0, -1.0], [{"a": -1.0}, {"c": -2.0, "b": -2.0}, {"q": -1.0}])
    assert distance(one, other).places == (0.0, 0.0)


def test_an_answer_that_just_ends_is_another_answer() -> None:
    assert agree({"x": spoken("ab", [-1.0, -2.0])}, {"x": A}, BY_DISTANCE).problem is not None
    assert agree({"x": spoken("", [])}, {"x": A}, BY_DISTANCE).problem is not None


def test_one_wrong_token_among_many_right_ones_is_seen() -> None:
    many = spoken("a" * 500, [-1.0] * 500)
    spoilt = spoken("a" * 500, [-1.0] * 499 + [-1.2])
    found = agree({"x": spoilt}, {"x": many}, BY_DISTANCE)
    assert found.mean is not None
    assert found.mean < BY_DISTANCE.tolerance
    assert found.problem is not None


def test_numbers_that_are_none_never_agree() -> None:
    assert agree({"x": spoken("a", [math.nan])}, {"x": spoken("a", [-1.0])}, BY_DISTANCE).problem


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(-5, 0)), max_size=6),
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(-5, 0)), max_size=6),
)
def test_a_distance_is_the_same_both_ways_and_never_negative(
    one: list[tuple[str, float]], other: list[tuple[str, float]]
) -> None:
    left = spoken("".join(t for t, _ in one), [v for _, v in one])
    right = spoken("".join(t for t, _ in other), [v for _, v in other])
    there, back = distance(left, right), distance(right, left)
    assert there.parted == back.parted
    assert there.places == pytest.approx(back.places)
    assert all(place >= 0 for place in there.places)


def test_exact_means_the_text() -> None:
    rule = Answers(match="exact")
    assert agree({"x": Spoken("abc")}, {"x": Spoken("abc")}, rule).problem is None
    found = agree({"x": Spoken("abd")}, {"x": Spoken("abc")}, rule)
    assert found.problem == "x: the answer 'abd', and the baseline's 'abc'"
    assert (found.same, found.mean) == (0, None)


def test_first_means_the_first_tokens() -> None:
    rule = Answers(match="first", first=2)
    one = spoken("abx", [-1.0, -2.0, -3.0])
    assert agree({"x": one}, {"x": A}, rule).problem is None
    found = agree({"x": spoken("axc", [-1.0, -2.0, -3.0])}, {"x": A}, rule)
    assert found.problem is not None
    assert "first 2 tokens" in found.problem


def test_only_prompts_that_both_were_asked_are_compared() -> None:
    assert agree({"x": A, "y": A}, {"x": A}, BY_DISTANCE).compared == 1
    assert agree({"y": A}, {"x": A}, BY_DISTANCE).problem is None

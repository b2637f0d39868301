from __future__ import annotations

import warnings

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from tuner.spec.ranges import FloatRange, IntegerRange


def test_integers() -> None:
    found = IntegerRange(low=2, high=10, step=4)
    assert found.size == 3
    assert [found.value(index) for index in range(3)] == [2, 6, 10]
    assert found.contains(6)
    assert not found.contains(7)
    assert not found.contains(6.0)
    assert not found.contains(True)  # noqa: FBT003 - a value like any other
    assert found.snap(7) == 6
    assert str(found) == "2 to 10 in steps of 4"


def test_floats_with_steps_are_decimal() -> None:
    found = FloatRange(low=0.8, high=0.95, step=0.05)
    assert [found.value(index) for index in range(found.size or 0)] == [0.8, 0.85, 0.9, 0.95]
    assert found.snap(0.8 + 3 * 0.05) == 0.95
    assert found.contains(0.85)
    assert found.contains(0.8 + 0.05) is (0.8 + 0.05 == 0.85)
    assert not found.contains(0.87)


def test_floats_without_steps() -> None:
    found = FloatRange(low=0.5, high=2, log=True)
    assert found.size is None
    assert found.contains(1)
    assert found.snap(1.7) == 1.7
    assert str(found) == "0.5 to 2.0, logarithmic"


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (IntegerRange, {"low": 3, "high": 1}, "low is above high"),
        (IntegerRange, {"low": 0, "high": 8, "log": True}, "a low above 0"),
        (IntegerRange, {"low": 1, "high": 8, "step": 2}, "write high: 7"),
        (IntegerRange, {"low": 1, "high": 9, "step": 2, "log": True}, "exclude each other"),
        (IntegerRange, {"low": 1, "high": 9, "step": 0}, "greater than or equal to 1"),
        (IntegerRange, {"low": 1.0, "high": 9}, "valid integer"),
        (FloatRange, {"low": 0.1, "high": 0.35, "step": 0.1}, "write high: 0.3"),
        (FloatRange, {"low": 0.0, "high": 1.0, "log": True}, "a low above 0"),
        (FloatRange, {"low": 0.1, "high": float("inf")}, "finite"),
    ],
)
def test_ranges_that_make_no_sense(
    kind: type[IntegerRange | FloatRange], fields: dict[str, object], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(fields)
    assert said in str(caught.value)


def test_outside_is_said() -> None:
    with pytest.raises(ValueError, match="not between 1 and 4"):
        IntegerRange(low=1, high=4).snap(5)
    with pytest.raises(ValueError, match="not between"):
        FloatRange(low=1, high=4).snap(5)


@given(st.integers(-1000, 1000), st.integers(0, 50), st.integers(1, 50))
def test_every_integer_of_a_range_is_its_own_nearest(low: int, count: int, step: int) -> None:
    found = IntegerRange(low=low, high=low + count * step, step=step)
    values = [found.value(index) for index in range(found.size)]
    assert values[-1] == found.high
    assert all(found.contains(value) and found.snap(value) == value for value in values)


@given(
    st.integers(-999, 999), st.integers(1, 40), st.integers(1, 99), st.sampled_from([1, 10, 1000])
)
def test_every_number_of_a_range_is_its_own_nearest(
    low: int, count: int, step: int, by: int
) -> None:
    found = FloatRange(low=low / by, high=(low + count * step) / by, step=step / by)
    values = [found.value(index) for index in range(found.size or 0)]
    assert values[-1] == found.high
    assert all(found.contains(value) and found.snap(value) == value for value in values)


@given(st.integers(1, 999), st.integers(1, 40), st.integers(1, 99))
def test_optuna_takes_the_ranges_as_they_are(low: int, count: int, step: int) -> None:
    """Bounds that the steps do not reach would be moved by Optuna, with a warning."""
    optuna = pytest.importorskip("optuna")
    found = FloatRange(low=low / 100, high=(low + count * step) / 100, step=step / 100)
    assume(found.high < 1e6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        taken = optuna.distributions.FloatDistribution(found.low, found.high, step=found.step)
    assert taken.high == pytest.approx(found.high)

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.search.importance import FEWEST, importance
from tuner.search.sampler import Told
from tuner.spec.axes import Axis


def axis(name: str, count: int) -> Axis:
    return Axis(name=name, kind="ordinal", low=0, high=count - 1)


AXES = (axis("matters", 4), axis("does_not", 4))


def told(matters: int, does_not: int, value: float, violation: float = -1.0) -> Told:
    return Told({"matters": matters, "does_not": does_not}, value, {"start": violation})


def test_the_parameter_that_decides_comes_first() -> None:
    history = [told(a, b, 100.0 + 50 * a) for a in range(4) for b in range(4)]
    found = importance(AXES, history)
    assert list(found) == ["matters", "does_not"]
    assert found["matters"] > 0.9
    assert math.isclose(sum(found.values()), 1.0)


def test_what_makes_trials_fail_is_important() -> None:
    history = [
        told(a, b, 0.0 if b == 3 else 100.0, 1.0 if b == 3 else -1.0)
        for a in range(4)
        for b in range(4)
    ]
    assert next(iter(importance(AXES, history))) == "does_not"


def test_too_little_says_nothing() -> None:
    assert importance(AXES, [told(0, 0, 1.0)] * (FEWEST - 1)) == {}
    assert importance(AXES, [told(0, 0, 1.0)] * 20) == {}
    assert importance(AXES, []) == {}


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 1e6)), max_size=30))
def test_shares_add_up(rows: list[tuple[int, int, float]]) -> None:
    found = importance(AXES, [told(a, b, v) for a, b, v in rows])
    assert not found or math.isclose(sum(found.values()), 1.0)
    assert list(found.values()) == sorted(found.values(), reverse=True)

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tuner.errors import SpaceError
from tuner.spec import Axis, Context, SearchSpace, axes

Build = Callable[..., SearchSpace]
On = Callable[..., Context]

KINDS = """
parameters:
  numbers: {flag: --xa, choices: [8, 1, .inf, 2.5], baseline: 1}
  mixed: {flag: --xb, choices: [auto, 1], baseline: auto}
  absent: {flag: --xc, choices: [null, 1], baseline: null}
  switch: {flag: --xd, switch: pair, baseline: false}
  whole: {flag: --xe, integer: {low: 2, high: 10, step: 4}, baseline: 6}
  wide: {flag: --xf, integer: {low: 1, high: 1024, log: true}, baseline: 32}
  steps: {flag: --xg, float: {low: 0.8, high: 0.95, step: 0.05}, baseline: 0.9}
  free: {flag: --xh, float: {low: 0.001, high: 1, log: true}, baseline: 0.5}
  bundle: {bundle: {fast: {flags: {--xi: 1}}, safe: {}}, baseline: safe}
"""


def test_a_sampler_sees_numbers(build: Build, context: On) -> None:
    space = build(KINDS)
    found = {axis.name: axis for axis in axes(space, context(space))}
    assert found["numbers"] == Axis("numbers", "ordinal", 0, 3)
    assert found["mixed"] == Axis("mixed", "categorical", 0, 1)
    assert found["absent"] == Axis("absent", "categorical", 0, 1)
    assert found["switch"] == Axis("switch", "categorical", 0, 1)
    assert found["whole"] == Axis("whole", "integer", 2, 10, 4)
    assert found["wide"] == Axis("wide", "integer", 1, 1024, 1, log=True)
    assert found["steps"] == Axis("steps", "float", 0.8, 0.95, 0.05)
    assert found["free"] == Axis("free", "float", 0.001, 1, None, log=True)
    assert found["bundle"] == Axis("bundle", "categorical", 0, 1)
    assert [axis.size for axis in found.values()] == [4, 2, 2, 2, 3, 1024, 4, None, 2]


def test_axes_say_their_numbers(build: Build, context: On) -> None:
    space = build(KINDS)
    found = {axis.name: tuple(axis.values()) for axis in axes(space, context(space))}
    assert found["numbers"] == (0, 1, 2, 3)
    assert found["whole"] == (2, 6, 10)
    assert found["steps"] == (0.8, 0.85, 0.9, 0.95)
    assert found["free"] == ()
    assert all(
        len(tuple(axis.values())) == (axis.size or 0) for axis in axes(space, context(space))
    )


def test_one_value_is_an_axis_of_one() -> None:
    assert tuple(Axis("a", "float", 1, 1, None).values()) == (1.0,)
    assert Axis("a", "float", 1, 1, None).size == 1
    assert Axis("a", "float", 1, 2, None).size is None
    assert math.isclose(Axis("a", "float", 0, 1, 0.1).size or 0, 11)


def test_conditions_come_after_what_they_hang_on(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          third: {flag: --xc, choices: [1, 2], baseline: 1, when: second > 1}
          second: {flag: --xb, choices: [1, 2], baseline: 1, when: first == 'x'}
          first: {flag: --xa, choices: [x, y], baseline: y}
          alone: {flag: --xd, choices: [1, 2], baseline: 1}
        """
    )
    found = axes(space, context(space))
    assert [axis.name for axis in found] == ["first", "second", "third", "alone"]
    first, second, third, alone = found
    assert first.active({})
    assert alone.active({})
    assert second.active({"first": 0})
    assert not second.active({"first": 1})
    assert not second.active({})
    assert third.active({"first": 0, "second": 1})
    assert not third.active({"first": 0, "second": 0})
    assert not third.active({"first": 1, "second": 1})


def test_a_group_is_one_axis_at_its_first_member(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          before: {flag: --xz, choices: [1], baseline: 1}
          tp: {flag: -tp, baseline: 2}
          after: {flag: --xy, choices: [1, 2], baseline: 1, when: pp > 1}
          pp: {flag: -pp, baseline: 2}
        groups:
          sizes: {parallel: {members: [tp, pp], equals: hardware.devices}}
        """
    )
    found = axes(space, context(space, devices=4))
    assert [(axis.name, axis.size) for axis in found] == [("before", 1), ("sizes", 3), ("after", 2)]
    after = found[2]
    assert [after.active({"sizes": number}) for number in range(3)] == [True, True, False]


def test_conditions_may_ask_about_the_machine_and_the_load(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          a: {flag: --xa, choices: [1], baseline: 1, when: hardware.devices > 1}
          b: {flag: --xb, choices: [1], baseline: 1, when: workload.concurrency == 3}
        """
    )
    assert [axis.active({}) for axis in axes(space, context(space, devices=1))] == [False, True]
    assert [axis.active({}) for axis in axes(space, context(space, devices=2))] == [True, True]


def test_a_condition_that_cannot_be_computed_is_said_with_its_line(
    build: Build, context: On
) -> None:
    space = build(
        """
        parameters:
          a:
            flag: --xa
            choices: [1]
            baseline: 1
            when: 1 / hardware.devices > 1
        """
    )
    with pytest.raises(SpaceError, match=r"space.yaml:7: a: 1 / 0 has no value"):
        axes(space, context(space, devices=0))[0].active({})

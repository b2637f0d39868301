from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import SpaceError
from tuner.spec.entries import entries
from tuner.spec.evaluation import Value
from tuner.spec.parameter import Group
from tuner.spec.strict_yaml import parse_document

SOURCE = parse_document("groups: {g: {}}", Path("a.yaml"))


def combinations(group: str, facts: Mapping[str, Value] | None = None) -> list[tuple[object, ...]]:
    declared = Group.model_validate(parse_document(group, Path("a.yaml")).data)
    return [
        tuple(entry[member] for member in declared.members)
        for entry in entries("g", declared, facts or {}, SOURCE)
    ]


def test_written_points_keep_their_order_and_stand_once() -> None:
    assert combinations("points: [{a: 2, b: x}, {b: y, a: 1}, {a: 2, b: x}]") == [
        (2, "x"),
        (1, "y"),
    ]


def test_lists_move_together() -> None:
    assert combinations("together: {a: [1, 2, 4], b: [x, null, z]}") == [
        (1, "x"),
        (2, None),
        (4, "z"),
    ]


def test_grids_are_united() -> None:
    found = combinations("grids: [{a: [1, 2], b: [1, 2]}, {b: [2, 3], a: [2]}]")
    assert found == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)]


def test_an_equation_is_one_line_and_no_list_of_forbidden_pairs() -> None:
    found = combinations(
        "{grids: [{tp: [1, 2, 4], pp: [1, 2, 4], dp: [1, 2]}], "
        "require: tp * pp * dp == hardware.devices}",
        {"hardware.devices": 4},
    )
    assert all(math.prod(row) == 4 for row in found)  # type: ignore[arg-type] # numbers
    assert len(found) == 5


def test_sizes_share_the_devices_out() -> None:
    facts = {"hardware.devices": 4}
    assert combinations("parallel: {members: [tp, pp], equals: hardware.devices}", facts) == [
        (1, 4),
        (2, 2),
        (4, 1),
    ]
    assert combinations("parallel: {members: [tp, pp], divides: 4}") == [
        (1, 1),
        (1, 2),
        (1, 4),
        (2, 1),
        (2, 2),
        (4, 1),
    ]


@given(st.integers(1, 200), st.integers(1, 3), st.booleans())
def test_all_shares_and_only_those(total: int, count: int, equal: bool) -> None:  # noqa: FBT001
    names = ["a", "b", "c"][:count]
    key = "equals" if equal else "divides"
    found = combinations(f"parallel: {{members: [{', '.join(names)}], {key}: {total}}}")
    products = [math.prod(row) for row in found]  # type: ignore[arg-type] # numbers
    assert len(set(found)) == len(found)
    assert all(product == total if equal else total % product == 0 for product in products)
    divisors = [number for number in range(1, total + 1) if total % number == 0]
    wanted = _count(divisors, total, count, equal=equal)
    assert len(found) == wanted


def _count(divisors: list[int], total: int, count: int, *, equal: bool) -> int:
    """By trying all, to check the clever way."""
    import itertools

    return sum(
        (product == total if equal else total % product == 0)
        for row in itertools.product(divisors, repeat=count)
        if (product := math.prod(row)) <= total
    )


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (
            "{grids: [{a: [1]}], require: a == hardware.devices}",
            "g has no combination left: hardware.devices is 0",
        ),
        ("parallel: {members: [a], equals: hardware.devices}", "hardware.devices is 0, and sizes"),
        ("parallel: {members: [a], equals: 2.5 * 3}", "is 7.5, and sizes share out a whole number"),
        ("{points: [{a: x}], require: a > 1}", "'>' needs numbers"),
        ("{points: [{a: 1}], require: a}", "a must be true or false"),
        (
            f"grids: [{{{', '.join(f'{name}: [0, 1, 2, 3, 4, 5, 6, 7]' for name in 'abcde')}}}]",
            "g has more than 20000 combinations",
        ),
    ],
)
def test_groups_that_come_to_nothing(group: str, said: str) -> None:
    with pytest.raises(SpaceError) as caught:
        combinations(group, {"hardware.devices": 0})
    assert said in str(caught.value)
    assert caught.value.line == 1

from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.errors import SpaceError
from tuner.spec import Context, SearchSpace, check
from tuner.spec.soundness import asks_hardware

Build = Callable[..., SearchSpace]
On = Callable[..., Context]

TP = "parameters: {a: {flag: -tp, baseline: 1}}\n"
DEVICES = "hardware.devices"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("", set()),
        ("rules: [{forbid: hardware.cores == 7 and seqs == 2, reason: r}]", {"hardware.cores"}),
        ("computed: {c: {env: C, value: hardware.memory_gib / 2}}", {"hardware.memory_gib"}),
        (
            "computed: {c: {env: C, value: hardware.memory_gib / 2}}\nhardware: {memory: 8GiB}",
            set(),
        ),
        (TP + "groups: {g: {parallel: {members: [a], divides: hardware.devices}}}", {DEVICES}),
        (TP + "groups: {g: {grids: [{a: [1, 2]}], require: a <= hardware.devices}}", {DEVICES}),
        (TP.replace("}}", ", choices: [1], when: hardware.devices > 1}}"), {DEVICES}),
    ],
)
def test_what_a_space_asks_of_the_machine(build: Build, text: str, asked: set[str]) -> None:
    assert asks_hardware(build(text).document) == asked


def test_a_space_without_questions_is_checked_when_it_is_read(build: Build) -> None:
    with pytest.raises(SpaceError, match=r"space\.yaml:2: '>' needs numbers"):
        build(
            "parameters: {a: {flag: --xa, choices: [auto, 1], baseline: auto}}\n"
            "rules: [{forbid: a > 1, reason: r}]"
        )


def test_a_guard_makes_a_rule_hold_for_all_values(build: Build) -> None:
    space = build(
        "parameters: {a: {flag: --xa, choices: [auto, 1], baseline: auto}}\n"
        "rules: [{forbid: a != 'auto' and a > 1, reason: r}]"
    )
    assert len(space.rules) == 1


def test_only_values_that_can_meet_are_tried(build: Build) -> None:
    """1 / (a - 1) has no value where a is 1, but there b does not exist, and the rule with it."""
    text = """
        parameters:
          a: {flag: --xa, choices: [1, 2], baseline: 1}
          b: {flag: --xb, choices: [3], baseline: 3, when: CONDITION}
        rules:
          - {forbid: b > 0 and 1 / (a - 1) > 5, reason: r}
        """
    assert build(text.replace("CONDITION", "a > 1")).rules
    with pytest.raises(SpaceError, match=r"1 / 0 has no value \(with a = 1, b = 3\)"):
        build(text.replace("CONDITION", "a > 0"))


def test_ranges_are_tried_at_their_ends(build: Build) -> None:
    with pytest.raises(SpaceError, match=r"8 / 0 has no value \(with a = 0\)"):
        build(
            "parameters: {a: {flag: --xa, integer: {low: 0, high: 100}, baseline: 50}}\n"
            "rules: [{forbid: 8 / a > 9, reason: r}]"
        )


def test_large_spaces_are_tried_in_part_and_soon(build: Build) -> None:
    lines = "\n".join(
        f"  p{n}: {{flag: --p{n}, integer: {{low: 1, high: 999}}, baseline: 1}}" for n in range(20)
    )
    total = " + ".join(f"p{n}" for n in range(20))
    space = build(f"parameters:\n{lines}\nrules: [{{forbid: {total} > 9999, reason: r}}]\n")
    assert len(space.parameters) == 20


def test_the_machine_in_hand_decides(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          tp: {flag: -tp, baseline: 2}
          pp: {flag: -pp, baseline: 2}
        groups:
          g: {parallel: {members: [tp, pp], equals: hardware.devices}}
        rules:
          - {forbid: tp > pp and hardware.devices == 8, reason: r}
        """
    )
    check(space, context(space, devices=4))
    with pytest.raises(SpaceError, match="the baseline tp = 2, pp = 2 is not one of the 4 combin"):
        check(space, context(space, devices=8))
    with pytest.raises(SpaceError, match=r"hardware\.devices is 0, and sizes share out"):
        check(space, context(space, devices=0))


def test_the_baseline_and_first_points_keep_the_rules(build: Build) -> None:
    rules = "rules: [{forbid: seqs == 2, reason: too many}]\n"
    with pytest.raises(SpaceError, match="this point breaks the rule forbid seqs == 2: too many"):
        build(rules + "first: [{seqs: 2}]\n")
    with pytest.raises(SpaceError, match=r"space.yaml:1: the baseline breaks the rule"):
        build(rules.replace("== 2", "== 1"))


def test_conditions_must_be_true_or_false(build: Build) -> None:
    with pytest.raises(SpaceError, match=r"seqs \+ 1 must be true or false"):
        build("rules: [{forbid: seqs + 1, reason: r}]")

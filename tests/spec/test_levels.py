from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.spec.conftest import on
from tuner.errors import SpaceError
from tuner.spec import SearchSpace, describe
from tuner.spec.workload import Conversations, DecodeCurve

Build = Callable[..., SearchSpace]

TWO = """
workloads:
  talk: {kind: conversations, conversations: 8, turns: 2, concurrency: 2, turn_tokens: 100, output_tokens: 8}
  curve: {kind: decode_curve, concurrencies: [1, 4, 8], weight: 2}
"""


def test_a_level_is_the_workload_with_less(build: Build) -> None:
    space = build(
        "levels: [{name: short, leaves_out: much, workload: {conversations: 3, turn_tokens: {min: 5, max: 9}}}]"
    )
    (level,) = space.levels
    (load,) = space.loads_on(level)
    real = space.loads[0].workload
    assert isinstance(load.workload, Conversations)
    assert isinstance(real, Conversations)
    assert load.name == "main"
    assert load.workload.conversations == 3
    assert load.workload.model_dump(exclude={"conversations", "turn_tokens"}) == real.model_dump(
        exclude={"conversations", "turn_tokens"}
    )


def test_a_level_may_ask_some_of_several_workloads_and_one_load_of_several(build: Build) -> None:
    space = build(
        f"{TWO}\nlevels: [{{name: one, leaves_out: much, workloads: {{curve: {{concurrencies: [4]}}}}}}]"
    )
    (load,) = space.loads_on(space.levels[0])
    assert isinstance(load.workload, DecodeCurve)
    assert (load.name, load.workload.concurrencies, load.weight) == ("curve", (4,), 2)


def test_what_a_level_leaves_out_is_no_part_of_the_question_but_what_it_asks_is(
    build: Build,
) -> None:
    plain = build("")
    one = build("levels: [{name: a, leaves_out: much, workload: {turns: 1}}]")
    same = build("levels: [{name: a, leaves_out: this and that, workload: {turns: 1}}]")
    other = build("levels: [{name: a, leaves_out: much, workload: {output_tokens: 4}}]")
    assert one.fingerprint == same.fingerprint
    assert len({plain.fingerprint, one.fingerprint, other.fingerprint}) == 3


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("{name: a, leaves_out: x}", "leaves nothing out"),
        ("{name: a, leaves_out: x, until_settled: true}", "names no workload"),
        ("{name: a, leaves_out: x, workloads: {none: {turns: 1}}}", "no workload none"),
        ("{name: a, leaves_out: x, workload: {turns: 1}}", "workloads and not workload"),
        ("{name: a, leaves_out: x, workloads: {curve: {turns: 1}}}", "decode_curve has no turns"),
        (
            "{name: a, leaves_out: x, workloads: {curve: {concurrencies: [1, 1]}}}",
            "names a number twice",
        ),
    ],
)
def test_levels_that_do_not_fit_their_workloads_are_refused(
    build: Build, level: str, said: str
) -> None:
    with pytest.raises(SpaceError, match=said):
        build(f"{TWO}\nlevels: [{level}]")


def test_levels_are_described(build: Build) -> None:
    space = build(
        "levels: [{name: short, leaves_out: much, workload: {conversations: 3}},"
        " {name: whole, leaves_out: the end, until_settled: true}]"
    )
    lines = "\n".join(describe(space, on(space)))
    assert "short: conversations 3; leaves out much" in lines
    assert "whole: the workload as it is, until it has settled; leaves out the end" in lines
    assert "the best 10% climb, at least 3; the baseline, the first 4 candidates" in lines
    assert "levels:" not in describe(build(""), on(build("")))

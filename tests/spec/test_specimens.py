from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tuner.spec import (
    Context,
    Hardware,
    SearchSpace,
    assignment,
    baseline,
    first_points,
    load_space,
    violations,
)
from tuner.spec.specimens import specimens

Build = Callable[..., SearchSpace]
On = Callable[..., Context]


def test_they_are_of_the_space_keep_its_rules_and_are_new() -> None:
    space = load_space(Path("search_spaces/local_cpu.yaml"))
    context = Context.of(space, Hardware(0, 2, 24 << 30))
    found = specimens(space, context, 20)
    known = [baseline(space, context), *first_points(space, context)]
    assert len(found) == 20
    for number, one in enumerate(found):
        assert assignment(space, one, context)
        assert violations(space, one, context) == []
        assert one not in known
        assert one not in found[:number]
    assert specimens(space, context, 20) == found


def test_few_of_them_show_much() -> None:
    space = load_space(Path("search_spaces/local_cpu.yaml"))
    context = Context.of(space, Hardware(0, 2, 24 << 30))
    shown = [baseline(space, context), *specimens(space, context, 3)]
    for name, parameter in space.parameters.items():
        values = {repr(one[name]) for one in shown if name in one}
        assert len(values) >= min(3, len(parameter.choices or (True, False)))


def test_a_small_space_has_no_more_than_it_has(build: Build, context: On) -> None:
    space = build("rules: [{forbid: seqs == 4, reason: r}]\nfirst: [{seqs: 2}]")
    assert specimens(space, context(space), 5) == ()
    space = build("rules: [{forbid: seqs == 4, reason: r}]")
    assert specimens(space, context(space), 5) == ({"seqs": 2},)


def test_ranges_are_shown_too(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          a: {flag: --xa, float: {low: 0, high: 1}, baseline: 0}
          b: {flag: --xb, integer: {low: 8, high: 64, step: 8}, baseline: 8}
          c: {flag: --xc, float: {low: 0.5, high: 0.9, step: 0.1}, baseline: 0.5}
        """
    )
    for one in specimens(space, context(space), 10):
        assert assignment(space, one, context(space))

from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.errors import SpaceError
from tuner.spec import SearchSpace
from tuner.spec.checks.comparisons import vain

Build = Callable[..., SearchSpace]

SPACE = """
parameters:
  impl: {env: IMPL, choices: [native, loop, auto, 4, null], baseline: loop}
  eager: {flag: --enforce-eager, switch: bare, baseline: true}
  mode: {bundle: {fast: {env: {A: 1}}, safe: {}}, baseline: safe}
  size: {flag: --size, integer: {low: 1, high: 9}, baseline: 1}
  tp: {flag: -tp, baseline: 1}
  pp: {flag: -pp, baseline: 1}
groups: {g: {grids: [{tp: [1, 2], pp: [1]}, {tp: [4], pp: [2, 1]}]}}
rules: [{forbid: "EXPRESSION", reason: r}]
"""


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("impl == 'natve'", "impl is never 'natve' — did you mean 'native'?"),
        ("impl != 'Native'", "impl is never 'Native' — did you mean 'native'?"),
        ("impl == '4'", "impl is never '4' — did you mean 4?"),
        ("impl == 'null'", "impl is never 'null' — did you mean null?"),
        ("eager == 'false'", "eager is never 'false' — did you mean false?"),
        ("mode in ['fast', 'saffe']", "mode is never 'saffe' — did you mean 'safe'?"),
        ("not ('saffe' != mode)", "mode is never 'saffe' — did you mean 'safe'?"),
        ("tp == '4' and size > 1", "tp is never '4' — did you mean 4?"),
    ],
)
def test_what_was_probably_meant_is_said(build: Build, expression: str, said: str) -> None:
    with pytest.raises(SpaceError) as caught:
        build(SPACE.replace("EXPRESSION", expression))
    assert str(caught.value).endswith(said)
    assert caught.value.line == 10


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("impl == 'native' and eager == false and mode == 'fast'", []),
        ("impl in ['native', 4, null] or tp == 4 or pp == 2", []),
        ("impl == 'grouped'", ["impl is never 'grouped'"]),
        ("tp in [2, 8]", ["tp is never 8"]),
        ("size == 77 or 1 == 2 or size in [pp + 8]", []),
        ("eager == true if tp == 3 else false", ["tp is never 3"]),
    ],
)
def test_values_that_are_just_not_there_are_no_mistake(
    build: Build, expression: str, names: list[str]
) -> None:
    """Whoever narrows the values of a parameter need not touch its rules and conditions."""
    space = build(SPACE.replace("EXPRESSION", expression))
    assert [str(found) for found in vain(space.document)] == names

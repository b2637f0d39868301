from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.errors import SpaceError
from tuner.spec import SearchSpace

Build = Callable[..., SearchSpace]


def declared(*parameters: str) -> str:
    """Parameters from lines such as ``a: flag --x, when: c > 1``; the values do not matter here."""
    return "parameters:\n" + "".join(f"  {line}\n" for line in parameters)


ONE = "choices: [1], baseline: 1"
STEER = "c: {env: C, choices: [1, 2, 3], baseline: 1}"


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        (
            (f"a: {{flag: -tp, {ONE}}}", f"b: {{flag: tensor_parallel_size, {ONE}}}"),
            "flag --tensor-parallel-size",
        ),
        ((f"a: {{env: X, {ONE}}}", f"b: {{env: X, {ONE}}}"), "env X"),
        ((f"a: {{flag: --x, leaf: p.q, {ONE}}}", f"b: {{flag: --x, leaf: p, {ONE}}}"), "flag --x"),
        ((f"a: {{flag: --x, leaf: p, {ONE}}}", f"b: {{flag: --x, {ONE}}}"), "flag --x"),
        (
            ("a: {flag: --x, switch: pair, baseline: true}", f"b: {{flag: --no-x, {ONE}}}"),
            "flag --x",
        ),
        (
            tuple(f"{n}: {{setting: model, choices: [/{n}], baseline: /{n}}}" for n in "ab"),
            "the engine's model",
        ),
        (
            (f"a: {{flag: --x, {ONE}}}", "b: {bundle: {u: {}, v: {flags: {--x: 1}}}, baseline: u}"),
            "flag --x",
        ),
        (
            tuple(f"{n}: {{bundle: {{u: {{env: {{X: 1}}}}}}, baseline: u}}" for n in "ab"),
            "env X",
        ),
        (
            (
                STEER,
                f"a: {{flag: --x, {ONE}, when: c > 1}}",
                f"b: {{flag: --x, {ONE}, when: c < 3}}",
            ),
            "flag --x",
        ),
    ],
)
def test_two_tuned_values_for_one_thing_are_refused(
    build: Build, parameters: tuple[str, ...], what: str
) -> None:
    with pytest.raises(SpaceError, match=f"a and b can both set {what} at one point"):
        build(declared(*parameters))


@pytest.mark.parametrize(
    "parameters",
    [
        (f"a: {{flag: --x, leaf: p, {ONE}}}", f"b: {{flag: --x, leaf: q, {ONE}}}"),
        (f"a: {{flag: --x, leaf: p.q, {ONE}}}", f"b: {{flag: --x, leaf: p.qq, {ONE}}}"),
        (STEER, f"a: {{flag: --x, {ONE}, when: c > 1}}", f"b: {{flag: --x, {ONE}, when: c < 2}}"),
        (
            "c: {bundle: {u: {flags: {--x: 1}}, v: {}}, baseline: u}",
            f"b: {{flag: --x, {ONE}, when: c == 'v'}}",
        ),
        (
            STEER,
            "d: {env: D, choices: [1, 2], baseline: 1, when: c == 1}",
            f"a: {{flag: --x, {ONE}, when: d == 1}}",
            f"b: {{flag: --x, {ONE}, when: c == 2}}",
        ),
        ("c: {bundle: {u: {flags: {--x: 1}}, v: {flags: {--x: 2}}}, baseline: u}",),
    ],
)
def test_tuned_values_that_exclude_each_other_are_taken(
    build: Build, parameters: tuple[str, ...]
) -> None:
    assert build(declared(*parameters)).parameters


def test_a_computed_value_quarrels_only_where_it_exists(build: Build) -> None:
    text = (
        "parameters:\n  c: {env: C, choices: [u, v], baseline: u}\n"
        "  a: {env: A, choices: [1], baseline: 1, when: c == 'u'}\n"
        "  b: {flag: --x, choices: [2], baseline: 2, when: c == 'CASE'}\n"
        "computed:\n  twice: {flag: --x, value: 2 * a}\n"
    )
    assert build(text.replace("CASE", "v")).computed
    with pytest.raises(SpaceError, match="b and twice can both set flag --x"):
        build(text.replace("CASE", "u"))

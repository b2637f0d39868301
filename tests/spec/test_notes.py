from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.spec import Context, SearchSpace, notes

Build = Callable[..., SearchSpace]
On = Callable[..., Context]


def test_fixed_values_that_a_tuned_one_replaces_are_listed(build: Build, context: On) -> None:
    space = build(
        """
        engine:
          recipe: cpu
          model: {make: tiny-hybrid}
          flags:
            --max-num-seqs: 4
            --no-enable-prefix-caching: true
            --enforce-eager: true
            --listed: {list: [1, 2], join: comma}
            --compilation-config: {level: 3, other: {a: 1}}
            --kept: 1
          env: {A: "1", B: {from_env: OUT}}
        parameters:
          max_num_seqs: {flag: max_num_seqs, choices: [1, 2], baseline: 1}
          cache: {flag: --enable-prefix-caching, switch: pair, baseline: true}
          eager: {flag: --enforce-eager, switch: bare, baseline: true, when: cache}
          level: {flag: -cc, leaf: level, choices: [0, 3], baseline: 3}
          b: {flag: -cc, leaf: other.b, choices: [0, 3], baseline: 3}
          mode: {bundle: {x: {env: {A: "2", B: "3"}}, y: {}}, baseline: y}
        computed:
          listed: {flag: --listed, value: max_num_seqs + 1}
        """
    )
    assert notes(space, context(space)) == [
        "flag --max-num-seqs: fixed 4, tuned by max_num_seqs; the tuned value wins",
        "flag --enable-prefix-caching: fixed --no-enable-prefix-caching, tuned by cache; the tuned value wins",
        "flag --enforce-eager: fixed on, tuned by eager; the tuned value wins where cache",
        "flag --compilation-config, level: fixed 3, tuned by level; the tuned value wins",
        "env A: fixed 1, tuned by mode = x; the tuned value wins",
        "env B: fixed from the environment (OUT), tuned by mode = x; the tuned value wins",
        "flag --listed: fixed 1, 2, computed by listed; the computed value wins",
    ]


def test_parts_of_the_engine_that_a_parameter_chooses_are_listed(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          where: {choices: [here, there], baseline: here}
          model: {setting: model, choices: [/a, /b], baseline: /a}
          recipe: {setting: recipe, baseline: cpu}
        groups:
          g: {points: [{recipe: cpu}, {recipe: existing}], when: where == 'there'}
        """
    )
    assert notes(space, context(space)) == [
        "the engine's model: fixed make:tiny-hybrid:0, tuned by model; the tuned value wins",
        "the engine's recipe: fixed cpu, tuned by recipe; the tuned value wins where where == 'there'",
    ]


@pytest.mark.parametrize(("devices", "said"), [(2, 0), (1, 1)])
def test_a_condition_that_never_holds_here_is_said(
    build: Build, context: On, devices: int, said: int
) -> None:
    space = build(
        """
        parameters:
          tp: {flag: -tp, baseline: 1}
          parallel: {flag: --enable-expert-parallel, switch: bare, baseline: true, when: tp > 1}
        groups: {g: {parallel: {members: [tp], divides: hardware.devices}}}
        """
    )
    line = "parallel: tp > 1 held at none of the points tried, so it may never exist"
    assert notes(space, context(space, devices=devices)) == [line] * said


@pytest.mark.parametrize(("trials", "said"), [(3, 0), (2, 1)])
def test_first_points_behind_the_budget_are_said(
    build: Build, context: On, trials: int, said: int
) -> None:
    space = build(f"budget: {{trials: {trials}}}\nfirst: [{{seqs: 2}}, {{seqs: 4}}]")
    line = "the budget ends with trial 2, before the last of the 2 first points is reached"
    assert notes(space, context(space)) == [line] * said


def test_comparisons_with_what_is_not_there_are_said(build: Build, context: On) -> None:
    space = build("rules: [{forbid: seqs == 64, reason: too many}]")
    assert notes(space, context(space)) == ["seqs is never 64, which an expression asks"]


def test_what_cannot_be_run_yet_is_said(
    build: Build, context: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuner.spec import supported

    monkeypatch.setattr(supported, "KINDS", frozenset())
    space = build("", any_version=True)
    assert notes(space, context(space)) == [
        "this version of tuner cannot run workloads of the kind conversations"
    ]

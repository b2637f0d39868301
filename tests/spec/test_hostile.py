"""Search spaces that nobody would write on purpose: each is accepted whole, or refused in one line."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spec.editor import complaints
from tuner.errors import SpaceError
from tuner.spec import (
    Context,
    Deployment,
    Hardware,
    baseline,
    check,
    describe,
    first_points,
    parse_space,
    resolve,
)

RICH = """
version: 1
study: rich
seed: 3
engine:
  recipe: cpu
  model: {make: tiny-hybrid, seed: 1}
  served_name: llm
  port: 8123
  flags:
    --max-model-len: 32768
    --compilation-config: {level: 3, pass_config: {fuse: true}}
    --listed: {list: [1, 2], join: comma}
    --enforce-eager: true
  env: {A: "1", HF_TOKEN: {from_env: MINE}}
  deadlines: {start: 3m, silence: 90s, stop: 30}
parameters:
  seqs: {flag: --max-num-seqs, choices: [1, 2, auto, null, .inf], baseline: 1, unit: sequences}
  tokens: {flag: --tokens, integer: {low: 256, high: 1024, step: 256}, baseline: 512}
  share: {flag: --share, float: {low: 0.5, high: 0.9}, baseline: 0.7}
  fuse: {flag: -cc, leaf: pass_config.fuse, choices: [true, false], baseline: true}
  cache: {flag: --cache, switch: pair, baseline: true}
  sizes: {flag: --sizes, choices: [[1, 2], [4]], join: space, baseline: [4], when: cache}
  mode: {bundle: {fast: {flags: {--x: 1}, env: {B: 1}}, safe: {}}, baseline: safe}
  tp: {flag: -tp, baseline: 2}
  pp: {flag: -pp, baseline: 2}
  factor: {choices: [1, 2], baseline: 1}
groups:
  layout: {parallel: {members: [tp, pp], equals: hardware.devices}, require: tp >= pp or tp == 1}
computed:
  twice: {env: TWICE, value: 2 * factor * workloads.a.concurrency}
  eager: {flag: --eager, switch: bare, value: mode == 'safe'}
rules:
  - {forbid: tokens > 768 and factor == 2, reason: too large}
first: [{mode: fast, tokens: 768}]
search: {sampler: tpe, startup: 4, finalists: {count: 1, rounds: 2}}
budget: {trials: 9, wall: 1h, engine: 30m}
workloads:
  a: {kind: conversations, conversations: 4, turns: {min: 1, max: 2}, concurrency: 3, turn_tokens: 100,
      output_tokens: 8, tools: 2, tools_in: system, warmup: {conversations: 1}}
  b: {kind: official_like, requests: 9, prompt_tokens: {buckets: [{min: 1, max: 9, weight: 1, reuse: 0.5}]},
      output_tokens: {median: 3, p90: 6, max: 9}, weight: 2}
score: {profile: own, weights: {output_tps: 1, uncached_input_tps: 0, cached_tps: 0}, gates: {weighted: off}}
memory: {host: 80%, device_floor: 1GiB}
hardware: {devices: 4}
export: {dir: "out/{study}", concurrency: 1, python: python3, env: {C: 1}, drop_env: [HF_*]}
"""
TREE: Any = yaml.safe_load(RICH.replace("off}", "'off'}"))
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
ON = Hardware(4, 8, 2**36, 2**35)

JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [
            *(
                "auto",
                "--x",
                "-tp",
                "--host",
                "a b",
                "a\nb",
                "\x00",
                "{}",
                "[1",
                "not",
                "1h",
                "8GiB",
                "101%",
            ),
            *(
                "seqs > 1",
                "tp * pp",
                "1 / 0",
                "seqs +",
                "unknown",
                "hardware.devices",
                "2 ** 9",
                "x" * 300,
            ),
            *(
                "conversations",
                "grid",
                "own",
                "make:x:1",
                "model",
                "pair",
                "../../etc",
                "LD_PRELOAD",
                "a.b",
            ),
        ]
    ),
    st.just([]),
    st.just({}),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.sampled_from(["file", "list", "from_env", "low", "a"]), st.integers(0, 2)),
)


def places(tree: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if here:
        yield here
    inside = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in inside:
        yield from places(value, (*here, key))


PLACES = list(places(TREE))


def changed(place: tuple[Any, ...], how: str, value: Any) -> Any:
    tree = copy.deepcopy(TREE)
    inner = tree
    for step in place[:-1]:
        inner = inner[step]
    if how == "replace":
        inner[place[-1]] = value
    elif how == "delete":
        del inner[place[-1]]
    elif isinstance(inner, dict):
        inner[str(value)] = inner.pop(place[-1])
    else:
        inner.append(value)
    return tree


def whole(text: str) -> None:
    """Read a search space and use all of it; only one-line errors may come of it."""
    error = refusal(text)
    if error is not None:
        assert str(error).startswith("/nowhere/space.yaml:")
        assert not UNSEEN.search(str(error)), str(error)
        assert error.line is not None


def refusal(text: str) -> SpaceError | None:
    """Why a search space is refused; None when it is accepted and holds together."""
    try:
        space = parse_space(text, Path("/nowhere/space.yaml"), any_version=True)
        context = Context.of(space, ON)
        check(space, context)
        assert describe(space, context)
        for point in (baseline(space, context), *first_points(space, context)):
            found = resolve(space, point, context)
            assert Deployment.from_json(json.loads(json.dumps(found.as_json()))) == found
            assert all("\0" not in item for item in (*found.argv, *dict(found.env).values()))
            assert not any(item == "--host" or item.startswith("--host=") for item in found.argv)
    except SpaceError as error:
        return error
    assert complaints(text) == []
    return None


def test_the_rich_one_is_accepted() -> None:
    context = Context.of(space := parse_space(RICH, Path("space.yaml"), any_version=True), ON)
    assert len(describe(space, context)) > 50


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from(["replace", "delete", "rename"]), JUNK)
def test_one_change_anywhere_is_taken_or_refused_in_one_line(
    place: tuple[Any, ...], how: str, value: Any
) -> None:
    text = yaml.safe_dump(changed(place, how, value), sort_keys=False, allow_unicode=True)
    whole(text)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, len(RICH) - 1), st.integers(0, 12), st.text(max_size=6))
def test_cut_and_overwritten_text_is_taken_or_refused_in_one_line(
    at: int, length: int, instead: str
) -> None:
    whole(RICH[:at] + instead + RICH[at + length :])


@pytest.mark.parametrize("value", ["a\nb", "a\x00b", "a\x1bb", "a\rb", "\u202eb", "a\u2028b"])
@pytest.mark.parametrize(
    "place",
    [
        ("engine", "env", "A"),
        ("engine", "recipe"),
        ("engine", "flags", "--max-model-len"),
        ("engine", "flags", "--listed", "list", 0),
        ("parameters", "seqs", "choices", 2),
        ("export", "env", "C"),
        ("export", "dir"),
        ("export", "python"),
    ],
)
def test_characters_that_no_argument_may_hold_are_refused(
    place: tuple[Any, ...], value: str
) -> None:
    text = yaml.safe_dump(changed(place, "replace", value), sort_keys=False)
    with pytest.raises(SpaceError) as caught:
        parse_space(text, Path("space.yaml"), any_version=True)
    assert not UNSEEN.search(str(caught.value))


@pytest.mark.parametrize("value", ["-1", "--trust-remote-code", "--host=0.0.0.0", "-"])
def test_a_value_never_becomes_a_flag(value: str) -> None:
    tree = changed(("engine", "flags", "--max-model-len"), "replace", value)
    tree["parameters"]["seqs"]["choices"] = [1, value]
    tree["parameters"]["seqs"]["baseline"] = value
    space = parse_space(yaml.safe_dump(tree), Path("space.yaml"), any_version=True)
    context = Context.of(space, ON)
    found = resolve(space, baseline(space, context), context).argv
    assert value not in found
    assert f"--max-model-len={value}" in found
    assert f"--max-num-seqs={value}" in found

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.errors import SpaceError
from tuner.spec import (
    Context,
    Hardware,
    SearchSpace,
    assignment,
    axes,
    baseline,
    enumerate_points,
    first_points,
    grid_size,
    load_space,
    parse_space,
    point,
)

Build = Callable[..., SearchSpace]
On = Callable[..., Context]

EVERYTHING = """
parameters:
  seqs: {flag: --max-num-seqs, choices: [4, 1, 2], baseline: 1}
  limit: {flag: --limit, choices: [1, .inf, auto, null], baseline: .inf}
  sizes: {flag: --sizes, choices: [[1, 2], [4]], join: comma, baseline: [4]}
  eager: {flag: --enforce-eager, switch: bare, baseline: true}
  share: {flag: --share, float: {low: 0.8, high: 0.95, step: 0.05}, baseline: 0.9}
  tokens: {flag: --tokens, integer: {low: 256, high: 1024, step: 256}, baseline: 512}
  kind: {bundle: {fast: {flags: {--f: 1}}, safe: {}}, baseline: safe}
  tp: {flag: -tp, baseline: 2}
  pp: {flag: -pp, baseline: 2}
  depth: {env: DEPTH, choices: [1, 2, 3], baseline: 2, when: kind == 'fast' and pp > 1}
  width: {env: WIDTH, choices: [1, 2], baseline: 1, when: depth >= 2}
groups:
  shares: {parallel: {members: [tp, pp], equals: 4}}
"""


def everything(build: Build) -> tuple[SearchSpace, Context]:
    space = build(EVERYTHING)
    return space, Context.of(space, Hardware(4, 8, 2**36))


def test_the_baseline_leaves_out_what_does_not_exist(build: Build) -> None:
    space, context = everything(build)
    assert baseline(space, context) == {
        "seqs": 1,
        "limit": "inf",
        "sizes": [4],
        "eager": True,
        "share": 0.9,
        "tokens": 512,
        "kind": "safe",
        "tp": 2,
        "pp": 2,
    }


def test_numbers_become_values_and_back(build: Build) -> None:
    space, context = everything(build)
    numbers = {
        "seqs": 2,
        "limit": 1,
        "sizes": 0,
        "eager": 0,
        "share": 0.8 + 0.05,
        "tokens": 768,
        "kind": 0,
        "shares": 0,
        "depth": 2,
        "width": 1,
    }
    found = point(space, numbers, context)
    assert found == {
        "seqs": 4,
        "limit": "inf",
        "sizes": [1, 2],
        "eager": False,
        "share": 0.85,
        "tokens": 768,
        "kind": "fast",
        "tp": 1,
        "pp": 4,
        "depth": 3,
        "width": 2,
    }
    assert assignment(space, found, context) == {**numbers, "share": 0.85}
    assert json.loads(json.dumps(found)) == found
    assert assignment(space, json.loads(json.dumps(found)), context) == {**numbers, "share": 0.85}


def test_numbers_of_axes_that_do_not_exist_are_passed_over(build: Build) -> None:
    space, context = everything(build)
    numbers = dict(assignment(space, baseline(space, context), context))
    assert "depth" not in numbers
    assert point(space, {**numbers, "depth": 1, "width": 0}, context) == baseline(space, context)


def test_a_number_that_is_missing_is_a_defect_of_the_caller(build: Build) -> None:
    space, context = everything(build)
    with pytest.raises(KeyError, match="seqs"):
        point(space, {}, context)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seqs": 3}, "seqs = 3 is not in this search space"),
        ({"seqs": True}, "seqs = true is not in this search space"),
        ({"seqs": "1"}, 'seqs = "1" is not in this search space'),
        ({"tp": 4}, "tp = 4, pp = 2 is not in this search space"),
        ({"share": 0.87}, "share = 0.87 is not in this search space"),
        ({"share": 1.2}, "share = 1.2 is not in this search space"),
        ({"share": math.nan}, "share = NaN is not in this search space"),
        ({"tokens": 512.5}, "tokens = 512.5 is not in this search space"),
        ({"tokens": "512"}, 'tokens = "512" is not in this search space'),
        ({"depth": 1}, "depth does not exist at this point"),
        ({"gone": 1}, "gone is unknown"),
        ({"kind": "fast"}, "the point does not say depth"),
    ],
)
def test_points_of_another_space_are_refused(
    build: Build, change: dict[str, object], said: str
) -> None:
    space, context = everything(build)
    wanted = {**baseline(space, context), **change}
    with pytest.raises(SpaceError) as caught:
        assignment(space, wanted, context)
    assert said in str(caught.value)


def test_numbers_are_the_same_in_both_spellings(build: Build) -> None:
    space, context = everything(build)
    wanted = {**baseline(space, context), "seqs": 2.0, "tokens": 512.0}
    assert assignment(space, wanted, context)["tokens"] == 512


def test_first_points_are_completed_by_the_baseline(build: Build, context: On) -> None:
    space = build(EVERYTHING + "first:\n  - {kind: fast, seqs: 4}\n  - {tp: 4, pp: 1}\n")
    on = context(space)
    start = baseline(space, on)
    found = first_points(space, on)
    assert found[0] == {**start, "kind": "fast", "seqs": 4, "depth": 2, "width": 1}
    assert found[1] == {**start, "tp": 4, "pp": 1}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{depth: 1}", "depth does not exist at this point"),
        ("{tp: 3}", "tp = 3, pp = 2 is not in this search space"),
        ("{seqs: 3}", "seqs = 3 is not in this search space"),
    ],
)
def test_first_points_must_be_in_the_space(build: Build, written: str, said: str) -> None:
    with pytest.raises(SpaceError, match=f"space.yaml:17: this point: {said}"):
        build(EVERYTHING.lstrip() + f"first:\n  - {{seqs: 2}}\n  - {written}\n")


@pytest.mark.slow
def test_the_grid_is_as_large_as_it_says(build: Build, context: On) -> None:
    space = build(EVERYTHING)
    on = context(space)
    found = [json.dumps(one) for one in enumerate_points(space, on)]
    assert len(found) == len(set(found)) == grid_size(space, on)
    # 3 · 4 · 2 · 2 · 4 · 4 of the free ones, times: safe 3 shares, fast with pp 1, and fast with
    # pp 2 or 4 where depth is 1 (one way) or 2 and 3 (two widths each).
    assert grid_size(space, on) == 3 * 4 * 2 * 2 * 4 * 4 * (3 + 1 + 2 * (1 + 2 * 2))


def test_the_size_of_a_large_grid_is_known_without_walking_it(build: Build, context: On) -> None:
    lines = "\n".join(
        f"  p{n}: {{flag: --p{n}, integer: {{low: 1, high: 1000}}, baseline: 1}}" for n in range(12)
    )
    space = build(f"parameters:\n{lines}\n")
    assert grid_size(space, context(space)) == 1000**12


def test_a_grid_without_end_is_refused(build: Build, context: On) -> None:
    space = build("parameters: {a: {flag: --xa, float: {low: 0, high: 1}, baseline: 0}}")
    with pytest.raises(SpaceError, match=r"a has no end of values, so there is no grid"):
        next(enumerate_points(space, context(space)))


def test_a_grid_whose_size_cannot_be_counted_is_refused(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          a: {flag: --xa, integer: {low: 1, high: 100000}, baseline: 1}
          b: {flag: --xb, integer: {low: 1, high: 100000}, baseline: 1}
          c: {flag: --xc, choices: [1, 2], baseline: 1, when: a > b}
        """
    )
    with pytest.raises(SpaceError, match="too many points to count"):
        grid_size(space, context(space))


def test_every_point_of_the_embedded_space_comes_back() -> None:
    space = load_space(Path("search_spaces/local_cpu.yaml"))
    context = Context.of(space, Hardware(0, 2, 24 << 30))
    points = list(enumerate_points(space, context))
    assert len(points) == 3520
    for one in random.Random(3).sample(points, 500):
        assert point(space, assignment(space, one, context), context) == one


SPACE = parse_space(
    EVERYTHING
    + """
version: 1
study: test
engine: {recipe: cpu, model: {make: tiny-hybrid}}
budget: {trials: 5}
workload: {kind: conversations, conversations: 4, turns: 2, concurrency: 3, turn_tokens: 100, output_tokens: 8}
""",
    Path("space.yaml"),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_a_sampler_draws_comes_back(data: st.DataObject) -> None:
    """As the search room does it: axis by axis, those that are active."""
    context = Context.of(SPACE, Hardware(4, 8, 2**36))
    drawn: dict[str, int | float] = {}
    for axis in axes(SPACE, context):
        if axis.active(drawn):
            drawn[axis.name] = data.draw(st.sampled_from(list(axis.values())), axis.name)
    found = point(SPACE, drawn, context)
    assert assignment(SPACE, found, context) == drawn
    assert list(found) == [name for name in SPACE.parameters if name in found]

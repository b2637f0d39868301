from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.spec import (
    Context,
    Hardware,
    SearchSpace,
    assignment,
    difference,
    enumerate_points,
    resolve,
)

Build = Callable[..., SearchSpace]

ONE = """
# a comment
engine:
  recipe: cpu
  model: {make: tiny-hybrid}
  flags: {-tp: 2, max_model_len: 100}
parameters:
  seqs:
    flag: --max_num_seqs
    choices: [1, 2]
    baseline: 1
    when: a=='x'   and hardware.cores>1
    description: words
    unit: sequences
  a: {env: A, choices: ["x", y], baseline: x}
rules: [{forbid: seqs==2, reason: because}]
budget: {wall: 90s}
workload:
  {kind: conversations, conversations: 4, turns: 2, concurrency: 3, turn_tokens: 100, output_tokens: 8, think_time: 60s}
score: {gates: {success_rate: 0.99}}
"""

SAME = """
study: other
score: {}
budget: {trials: 7}
export: {concurrency: 9}
workloads:
  main:
    kind: conversations
    turns: 2
    conversations: 4
    turn_tokens: 100
    output_tokens: 8
    concurrency: 3
    think_time: 1m
    scale: 1.0
parameters:
  a: {choices: [x, y], baseline: x, env: A}
  seqs: {choices: [1, 2], baseline: 1, flag: max-num-seqs, when: "(a == \\"x\\") and (hardware.cores > 1)"}
rules:
  - reason: for another reason
    forbid: seqs == 2
engine:
  port: 8000
  flags:
    --max-model-len: 100
    --tensor-parallel-size: 2
  model: {make: tiny-hybrid, seed: 0}
  recipe: cpu
"""


def test_the_same_meaning_has_the_same_fingerprint(build: Build) -> None:
    one, same = build(ONE), build(SAME)
    assert difference(one, same) == []
    assert one.fingerprint == same.fingerprint
    assert len(one.fingerprint) == 64


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("choices: [1, 2]", "choices: [1, 2, 4]", "parameters.seqs.choices: [1, 2] → [1, 2, 4]"),
        ("choices: [1, 2]", "choices: [2, 1]", "parameters.seqs.choices: [1, 2] → [2, 1]"),
        ("baseline: 1\n", "baseline: 2\n", "parameters.seqs.baseline: 1 → 2"),
        ("-tp: 2", "-tp: 4", "engine.flags.--tensor-parallel-size: 2 → 4"),
        ("-tp: 2", '-tp: "2"', 'engine.flags.--tensor-parallel-size: 2 → "2"'),
        ("-tp: 2, ", "", "engine.flags.--tensor-parallel-size: gone (was 2)"),
        ("-tp: 2", "-tp: 2, --x: 1", "engine.flags.--x: new (1)"),
        ("cores>1", "cores>2", "parameters.seqs.when"),
        ("seqs==2", "seqs==1 and a == 'y'", "rules"),
        ("think_time: 60s", "think_time: 61s", "workloads.main.think_time: 60.0 → 61.0"),
        ("success_rate: 0.99", "success_rate: 0.9", "score.gates.success_rate: 0.99 → 0.9"),
        ("make: tiny-hybrid", "make: tiny-hybrid, seed: 1", "engine.model.seed: 0 → 1"),
    ],
)
def test_another_meaning_has_another_and_says_how(
    build: Build, old: str, new: str, said: str
) -> None:
    assert old in ONE
    one, other = build(ONE), build(ONE.replace(old, new))
    assert one.fingerprint != other.fingerprint
    lines = difference(one, other)
    assert len(lines) == 1
    assert lines[0].startswith(said)


def test_texts_for_people_are_no_meaning_but_names_are(build: Build) -> None:
    assert build(ONE).fingerprint == build(ONE.replace("words", "other words")).fingerprint
    assert build(ONE).fingerprint == build(ONE.replace("because", "why not")).fingerprint
    named = ONE.replace("  a: {env", "  reason: {flag: --xr, choices: [1], baseline: 1}\n  a: {env")
    assert difference(build(ONE), build(named)) == [
        'parameters.reason: new ({"baseline": 1, "choices": [1], "flag": "--xr"})'
    ]


def test_the_content_of_files_is_a_part_of_the_meaning(build: Build, tmp_path: Path) -> None:
    text = "engine: {recipe: cpu, model: {make: x}, flags: {--chat-template: {file: a.jinja}}}"
    (tmp_path / "a.jinja").write_text("one")
    one = build(text)
    assert build(text).fingerprint == one.fingerprint
    (tmp_path / "a.jinja").write_text("two")
    two = build(text)
    assert two.fingerprint != one.fingerprint
    (line,) = difference(one, two)
    assert line.startswith("files.a.jinja: ")


def test_long_values_are_cut_in_the_difference(build: Build) -> None:
    many = ", ".join(str(number) for number in range(1, 200))
    (line,) = difference(build(ONE), build(ONE.replace("[1, 2]", f"[{many}]")))
    assert len(line) < 200
    assert line.endswith("…")


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("env: {value: a b}", "env: {value: a  b}"),
        ("flags: {--x: {unit: 1}}", "flags: {--x: {unit: 2}}"),
        ("flags: {--x: {when: not an expression}}", "flags: {--x: {when: an expression}}"),
        ("flags: {--x: {reason: [a]}}", "flags: {--x: {reason: [b]}}"),
    ],
)
def test_values_are_kept_whatever_their_keys_are_called(
    build: Build, text: str, other: str
) -> None:
    engine = "engine: {{recipe: cpu, model: {{make: x}}, {}}}"
    one, two = build(engine.format(text)), build(engine.format(other))
    assert one.fingerprint != two.fingerprint
    assert len(difference(one, two)) == 1


NAMES = """
parameters:
  unit: {flag: --xa, baseline: a b}
  value: {flag: --xb, baseline: 1}
  mode: {bundle: {description: {flags: {--xc: 1}}, reason: {}}, baseline: reason}
groups: {when: {points: [{unit: a b, value: 1}, {unit: c, value: 2}]}}
first: [{unit: c, value: 2}]
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("{unit: c, value: 2}", "{unit: d, value: 2}"), ("--xc: 1", "--xc: 2"), ("--xa", "--xd")],
)
def test_names_that_people_choose_are_no_words_of_the_form(
    build: Build, old: str, new: str
) -> None:
    assert build(NAMES).fingerprint != build(NAMES.replace(old, new)).fingerprint


KEYS = """
engine: {recipe: cpu, model: {make: x, seed: 1}, flags: {--xa: 1, --xb: {c: 1, d: 2}}, env: {A: 1, B: 2}}
parameters:
  tp: {flag: -tp, baseline: 2}
  pp: {flag: -pp, baseline: 1}
  mode: {bundle: {fast: {flags: {--xe: 1, --xf: 2}}, safe: {}, best: {env: {C: 1}}}, baseline: safe}
  depth: {env: DEPTH, choices: [3, 1, auto], baseline: auto, when: mode == 'fast'}
  low: {flag: --xc, baseline: 1}
  high: {flag: --xd, baseline: 1}
groups:
  shares: {grids: [{tp: [1, 2], pp: [1, 2]}, {tp: [4], pp: [1]}]}
  bounds: {together: {low: [1, 2], high: [1, 8]}}
computed: {seqs: {flag: --max-num-seqs, value: 2 * tp}, twice: {env: D, value: 2 * seqs}}
"""


def _shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: _shuffled(value[key], rng) for key in keys}
    return [_shuffled(item, rng) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_keys_changes_neither_the_meaning_nor_the_numbers(
    build: Build, seed: int
) -> None:
    """A study keeps points as numbers; they must mean the same after a file was put in order."""
    one = build(KEYS)
    other = build(
        yaml.safe_dump(_shuffled(yaml.safe_load(KEYS), random.Random(seed)), sort_keys=False)
    )
    assert one.fingerprint == other.fingerprint
    here, there = (Context.of(space, Hardware(4, 8, 2**36)) for space in (one, other))
    points = list(enumerate_points(one, here))
    assert len(points) == 5 * 2 * 5
    for point in points:
        assert assignment(one, point, here) == assignment(other, point, there)
        wanted, found = resolve(one, point, here), resolve(other, point, there)
        assert (sorted(wanted.argv), wanted.env) == (sorted(found.argv), found.env)

"""Keys that would do nothing, each next to the same key where it does something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.errors import SpaceError
from tuner.spec import SearchSpace

Build = Callable[..., SearchSpace]

TALK = "kind: conversations, conversations: 4, turn_tokens: 100, output_tokens: 8, "
OFFICIAL = "kind: official_like, "
TP = "parameters: {tp: {flag: -tp, baseline: 1}}\n"

STEPS = "--enable-logging-iteration-details: true"
LOGS = f"engine: {{recipe: cpu, model: {{make: x}}, flags: {{{STEPS}, --max-num-batched-tokens: 512}}}}\n"
SEQS = "parameters: {seqs: {flag: --max-num-seqs, choices: [1, 2], baseline: 1}}\n"
CURVE = "kind: decode_curve, rounds: 2, prompt_tokens: 64, output_tokens: 8, "
BUNDLE = (
    "parameters: {b: {bundle: {x: {flags: {--max-num-seqs: 1}}, y: {flags: {--max-num-seqs: 2}}}, "
    "baseline: x}}\n"
)
ORDERED = f"{LOGS}{SEQS}search: {{proxy: on}}\n"

PAIRS = [
    (f"{SEQS}search: {{proxy: on}}", ORDERED, "engines log"),
    (
        ORDERED.replace(f"{STEPS}, ", "").replace(
            "flags:", "env: {ENGINEX_STEP_RECORDS: /all.jsonl}, flags:"
        ),
        ORDERED.replace(f"{STEPS}, ", "").replace(
            "flags:", "env: {ENGINEX_STEP_RECORDS: own.jsonl}, flags:"
        ),
        "engines log",
    ),
    (
        ORDERED
        + f"workloads: {{a: {{{TALK} turns: 2, concurrency: 1}}, b: {{{TALK} turns: 2, concurrency: 2}}}}",
        ORDERED + f"workloads: {{a: {{{TALK} turns: 2, concurrency: 1}}}}",
        "proxy: on does nothing: there are 2 loads, and",
    ),
    (
        ORDERED + f"workload: {{{CURVE} concurrencies: [1, 2, 4]}}",
        ORDERED + f"workload: {{{CURVE} concurrencies: [4]}}",
        "proxy: on does nothing: there are 3 loads, and",
    ),
    (
        f"{LOGS}{SEQS.replace('--max-num-seqs', '--block-size')}search: {{proxy: on}}",
        LOGS + BUNDLE + "search: {proxy: on}",
        "--max-num-seqs is left to the engine",
    ),
    (
        f"{LOGS.replace(', --max-num-batched-tokens: 512', '')}{SEQS}search: {{proxy: on}}",
        f"{LOGS}{SEQS}search: {{proxy: on, sampler: random}}",
        "--max-num-batched-tokens is left to the engine",
    ),
    (
        f"{LOGS}{SEQS}search: {{proxy: on, repeats: {{baseline: 1}}}}",
        f"{LOGS}{SEQS}search: {{proxy: on, repeats: {{baseline: 2}}}}",
        "shows no noise",
    ),
    ("seed: 3\nsearch: {sampler: grid}", "seed: 3\nsearch: {sampler: random}", "seed"),
    (
        "search: {finalists: {count: 0, rounds: 2}}",
        "search: {finalists: {count: 1, rounds: 2}}",
        "rounds",
    ),
    (
        "engine: {recipe: cpu, model: {make: x}, deadlines: {start: 9s, silence: 10s}}",
        "engine: {recipe: cpu, model: {make: x}, deadlines: {start: 9s, silence: 9s}}",
        "silence",
    ),
    (
        "engine: {recipe: cpu, model: {make: x}, deadlines: {tokens: 151s}}",
        "engine: {recipe: cpu, model: {make: x}, deadlines: {tokens: 150s}}",
        "half of request_timeout ends first",
    ),
    (
        "hardware: {cores: 4}",
        "hardware: {cores: 4}\nrules: [{forbid: seqs > hardware.cores, reason: r}]",
        "no expression asks for hardware.cores",
    ),
    (
        "hardware: {devices: 4}",
        f"hardware: {{devices: 4}}\n{TP}groups: {{g: {{parallel: {{members: [tp], divides: hardware.devices}}}}}}",
        "no expression asks for hardware.devices",
    ),
    (
        "parameters: {p: {bundle: {a: {env: {X: 1}}, b: {env: {X: 1}}}, baseline: a}}",
        'parameters: {p: {bundle: {a: {env: {X: 1}}, b: {env: {X: "1"}}}, baseline: a}}',
        "b sets just what a sets",
    ),
    (
        "rules: [{forbid: seqs == 2, reason: r}, {forbid: (seqs==2), reason: s}]",
        "rules: [{forbid: seqs == 2, reason: r}, {require: seqs == 1, reason: s}]",
        "stands twice",
    ),
    (
        "rules: [{require: 2 > 1, reason: r}]",
        "rules: [{require: workload.concurrency > 1, reason: r}]",
        "names nothing that could vary",
    ),
    (
        "export: {env: {HF_HOME: /x}, drop_env: [HF_*]}",
        "export: {env: {HF_HOME: /x}, drop_env: [HF_A*]}",
        "drops HF_HOME",
    ),
    (
        f"workload: {{{TALK} turns: 2, concurrency: 1, weight: 2}}",
        f"workloads: {{a: {{{TALK} turns: 2, concurrency: 1, weight: 2}}, b: {{{TALK} turns: 2, concurrency: 2}}}}",
        "weight does nothing",
    ),
    (
        f"workload: {{{TALK} turns: 2, concurrency: 1, tools_in: request}}",
        f"workload: {{{TALK} turns: 2, concurrency: 1, tools_in: request, tools: 1}}",
        "tools_in does nothing",
    ),
    (
        f"workload: {{{TALK} turns: {{min: 1, max: 1}}, concurrency: 1, growth: 2}}",
        f"workload: {{{TALK} turns: {{min: 1, max: 2}}, concurrency: 1, growth: 2}}",
        "growth does nothing",
    ),
    (
        f"workload: {{{TALK} turns: 1, concurrency: 1, think_time: 1s}}",
        f"workload: {{{TALK} turns: 2, concurrency: 1, think_time: 1s}}",
        "think_time does nothing",
    ),
    (
        f"workload: {{{TALK} turns: 1, concurrency: 5}}",
        f"workload: {{{TALK} turns: 1, concurrency: 4}}",
        "there are only 4 conversations",
    ),
    (
        f"workload: {{{OFFICIAL} requests: 4, concurrency: 5}}",
        f"workload: {{{OFFICIAL} requests: 4, concurrency: 4}}",
        "there are only 4 requests",
    ),
    (
        f"workload: {{{OFFICIAL} tools: 0, tool_share: 0.5}}",
        f"workload: {{{OFFICIAL} tools: 0, tool_share: 0}}",
        "tool_share does nothing",
    ),
    (
        f"workload: {{{OFFICIAL} tools: 8, tool_share: 0}}",
        f"workload: {{{OFFICIAL} tools: 8}}",
        "tools does nothing",
    ),
    (
        "workload: {kind: replay, file: t.csv, requests: 2, concurrency: 3}",
        "workload: {kind: replay, file: t.csv, requests: 2, mode: open}",
        "there are only 2 requests",
    ),
    (
        "workload: {kind: dataset, file: t.json, conversations: 2, concurrency: 3}",
        "workload: {kind: dataset, file: t.json, conversations: 3, concurrency: 3}",
        "there are only 2 conversations",
    ),
    (
        "workload: {kind: dataset, file: t.json, conversations: 2, concurrency: 1, scale: 2}",
        "workload: {kind: dataset, file: t.json, conversations: 2, concurrency: 1, scale: 2, output_tokens: 4}",
        "scale does nothing",
    ),
    (
        f"workload: {{{OFFICIAL} output_tokens: {{buckets: [{{min: 1, max: 2, weight: 1, reuse: 0.5}}]}}}}",
        f"workload: {{{OFFICIAL} prompt_tokens: {{buckets: [{{min: 1, max: 2, weight: 1, reuse: 0.5}}]}}}}",
        "reuse does nothing",
    ),
]


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    for name in ("t.csv", "t.json"):
        (tmp_path / name).write_text("")


@pytest.mark.parametrize(("nothing", "something", "said"), PAIRS, ids=[p[2] for p in PAIRS])
def test_what_does_nothing_is_refused_and_what_does_something_is_not(
    build: Build, nothing: str, something: str, said: str
) -> None:
    with pytest.raises(SpaceError) as caught:
        build(nothing, any_version=True)
    assert said in str(caught.value)
    assert caught.value.mend
    assert build(something, any_version=True).study == "test"


def test_the_line_is_that_of_the_key(build: Build) -> None:
    with pytest.raises(SpaceError) as caught:
        build(
            """
            workload:
              kind: conversations
              conversations: 4
              turns: 1
              concurrency: 1
              turn_tokens: 100
              output_tokens: 8
              growth: 2
            """
        )
    assert caught.value.line == 9

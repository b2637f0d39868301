from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.errors import SpaceError
from tuner.spec import Context, Hardware, SearchSpace, describe, load_space

Build = Callable[..., SearchSpace]
On = Callable[..., Context]


def test_all_of_the_embedded_space_is_shown() -> None:
    space = load_space(Path("search_spaces/local_cpu.yaml"))
    lines = "\n".join(describe(space, Context.of(space, Hardware(0, 2, 24 << 30))))
    for name, parameter in space.parameters.items():
        assert f"  {name} (" in lines
        assert str(parameter.description) in lines
    for rule in space.rules:
        assert rule.reason in lines
    for said in (
        "3,520 points, sampler tpe",
        space.fingerprint,
        "recipe cpu, started as a process",
        "model make:tiny-hybrid:0, served as llm",
        "exists when moe != 'native'",
        "kv_space 64",
        "gate weighted: off",
        "gate ttft_p90_s: at most 10",
        "gate success_rate: at least 1",
        "16.796 * output TPS",
        "whichever comes first",
        "trials at random first",
        "the best 1, measured again in turns with the baseline, two starts of each a round, at most 2 rounds",
        "turn_tokens 200 to 1600",
        "ignore_eos on, request_timeout 60, time_limit 120, seed 11",
        "warmup (conversations 1)",
        "flag --max-model-len: 32768",
    ):
        assert said in lines


def test_the_rest_of_what_a_space_can_say_is_shown(build: Build, context: On) -> None:
    space = build(
        """
        engine:
          recipe: cpu
          model: {path: /m}
          flags: {--max-num-seqs: 4}
          env: {HF_TOKEN: {from_env: MINE}, B: "2"}
          allow_code: true
          port: 8123
          deadlines: {start: 10m, silence: 90s}
        parameters:
          tp: {flag: -tp, baseline: 2}
          pp: {flag: -pp, baseline: 2}
          mode: {bundle: {fast: {flags: {--x: 1}, env: {A: "1"}}, safe: {}}, baseline: safe}
          share: {flag: --share, float: {low: 0, high: 1}, baseline: 0.5, unit: parts}
          factor: {choices: [1, 2], baseline: 1}
        groups:
          sizes:
            grids: [{tp: [1, 2, 3, 4, 5], pp: [1, 2, 3, 4, 5]}]
            when: mode == 'safe'
            description: All sizes.
        computed: {seqs: {flag: --max-num-seqs, value: factor * 2, description: Twice the factor.}}
        first: [{mode: fast}]
        hardware: {cores: 48}
        rules: [{forbid: factor > hardware.cores, reason: "not\\n  enough"}]
        export: {concurrency: 2, python: python3, model_path: /model, env: {C: 7}, drop_env: [HF_*]}
        search: {sampler: random}
        budget: {trials: 3, wall: 1h, engine: 30m}
        score: {profile: own, weights: {output_tps: 1, uncached_input_tps: 0, cached_tps: 0}}
        memory: {host: 8GiB, device_floor: 5%}
        """
    )
    lines = "\n".join(describe(space, context(space, devices=2)))
    for said in (
        "no end of points, sampler random, seed 0",
        "flags and variables that load code are allowed",
        "env HF_TOKEN: from the environment (MINE)",
        "env B: 2",
        "flag --max-num-seqs: 4",
        "port 8123 on 127.0.0.1",
        "deadlines: start 10 m 00 s, silence 1 m 30 s, tokens 2 m 00 s, stop 1 m 00 s",
        "All sizes.",
        "Twice the factor.",
        "forbid factor > hardware.cores: not enough",
        "machine: 48 cores, 64.0 GiB, 2 devices of 32.0 GiB (cores as the search space has it)",
        "to deploy/test, concurrency 2",
        "interpreter python3",
        "model /model",
        "env C: 7",
        "without the variables HF_*",
        "tp (flag --tensor-parallel-size): in the group sizes; baseline 2",
        'mode (a bundle): fast, safe; baseline "safe"',
        "fast sets --x, A",
        "safe sets nothing",
        "share (flag --share): 0.0 to 1.0 parts; baseline 0.5",
        "factor (used in expressions): 1, 2; baseline 1",
        "sizes (tp, pp): 25 combinations; exists when mode == 'safe'",
        "tp 1, pp 2",
        "… and 5 more",
        "seqs (flag --max-num-seqs) = factor * 2",
        'mode "fast"',
        "budget: 3 trials or 1 h 00 m of wall time or 30 m 00 s of engine time",
        "1 * output TPS + 0 * uncached input TPS + 0 * cached TPS (own)",
        "host memory of the engine: at most 8.0 GiB",
        "free memory of each device: at least 5 % of what there is",
        "flag --max-num-seqs: fixed 4, computed by seqs; the computed value wins",
    ):
        assert said in lines


def test_several_workloads_show_their_weights(build: Build, context: On) -> None:
    one = "kind: conversations, conversations: 4, turns: 2, turn_tokens: 9, output_tokens: 8"
    space = build(
        f"workloads:\n  a: {{{one}, concurrency: 1}}\n  b: {{{one}, concurrency: 2, weight: 3}}\n"
    )
    lines = "\n".join(describe(space, context(space)))
    assert "a: conversations, weight 1\n" in lines
    assert "b: conversations, weight 3\n" in lines
    assert "known to expressions: concurrency 2, conversations 4" in lines


def test_a_space_that_does_not_fit_the_machine_is_refused(build: Build, context: On) -> None:
    space = build(
        "parameters: {tp: {flag: -tp, baseline: 2}}\n"
        "groups: {g: {parallel: {members: [tp], equals: hardware.devices}}}\n"
    )
    with pytest.raises(SpaceError, match="is not one of the 1 combinations of g"):
        describe(space, context(space, devices=4))


def test_what_the_step_simulator_may_do_is_said_where_it_is_not_as_usual(
    build: Build, context: On
) -> None:
    def first(proxy: str) -> str:
        flag = "--enable-logging-iteration-details: true, --max-num-batched-tokens: 512"
        engine = f"engine: {{recipe: cpu, model: {{make: x}}, flags: {{{flag}}}}}"
        space = build(f"{engine}\nsearch: {{proxy: {proxy}}}", any_version=True)
        return "\n".join(describe(space, context(space)))

    assert "step simulator" not in first("shadow")
    assert "the step simulator is left out" in first("off")
    assert "the step simulator orders the search once it has earned that" in first("on")


def test_one_of_a_thing_is_said_as_one(build: Build, context: On) -> None:
    space = build("search: {startup: 1}\nbudget: {trials: 1}")
    lines = "\n".join(describe(space, context(space)))
    assert "1 trial at random first" in lines
    assert "  budget: 1 trial\n" in lines


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (
            "objective: goodput_rps, limits: {ttft_s: 2, output_tps: 5}",
            [
                "the score is goodput_rps: requests a second that keep the limits",
                "a request counts with ttft_s at most 2, output_tps at least 5",
                "weighted, beside it: 16.796 * output TPS",
                "gate ttft_p90_s: at most 5",
            ],
        ),
        (
            "objectives: [output_tps, ttft_p90_s], choose: {best: output_tps, limit: 3}",
            [
                "two objectives: output_tps and ttft_p90_s",
                "the best output_tps wins, with ttft_p90_s at most 3",
            ],
        ),
        (
            "objectives: [output_tps, ttft_p90_s], choose: {balance: 0.25}",
            ["a gain in output_tps weighs 0.25, one in ttft_p90_s 0.75"],
        ),
    ],
)
def test_an_objective_is_said(build: Build, context: On, score: str, said: list[str]) -> None:
    space = build(f"score: {{{score}}}")
    lines = "\n".join(describe(space, context(space)))
    assert all(one in lines for one in said)
    assert ("gate ttft_p90_s: at most 5" in lines) is ("limit: 3" not in score)

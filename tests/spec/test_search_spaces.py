"""The search spaces that ship: each is read, resolved and described on machines that it is for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tuner.spec import (
    Context,
    Hardware,
    SearchSpace,
    assignment,
    axes,
    baseline,
    check,
    describe,
    first_points,
    load_space,
    parse_space,
    point,
    resolve,
    violations,
)

FOLDER = Path("search_spaces")
SHIPPED = sorted(path.name for path in FOLDER.glob("*.yaml"))
MACHINES = [
    Hardware(0, 2, 24 << 30),
    Hardware(4, 64, 256 << 30, 32 << 30),
    Hardware(8, 96, 1 << 40, 80 << 30),
]


def read(name: str) -> SearchSpace:
    return load_space(FOLDER / name, any_version=True)


@pytest.mark.parametrize("name", SHIPPED)
def test_it_names_its_schema_for_editors_in_its_first_line(name: str) -> None:
    first = (FOLDER / name).read_text(encoding="utf-8").splitlines()[0]
    where = first.removeprefix("# yaml-language-server: $schema=")
    assert (FOLDER / where).resolve() == Path("docs/reference/search_space.schema.json").resolve()


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.devices} devices")
def test_points_of_it_have_a_deployment_on_every_machine(name: str, machine: Hardware) -> None:
    space = read(name)
    context = Context.of(space, machine)
    check(space, context)
    assert describe(space, context)
    rng = random.Random(1)
    found = list(first_points(space, context))
    for _ in range(100):
        drawn: dict[str, int | float] = {}
        for axis in axes(space, context):
            if axis.active(drawn):
                values = tuple(axis.values()) or (axis.low, axis.high)
                drawn[axis.name] = rng.choice(values)
        found.append(point(space, drawn, context))
        assert assignment(space, found[-1], context) == drawn
    for one in found:
        deployment = resolve(space, one, context)
        assert all(item.isprintable() for item in deployment.argv)
        violations(space, one, context)


@pytest.mark.parametrize("name", SHIPPED)
def test_studies_of_different_spaces_have_different_names(name: str) -> None:
    others = [read(other).study for other in SHIPPED if other != name]
    assert read(name).study not in others


def test_the_embedded_space_searches_what_it_promises() -> None:
    space = load_space(FOLDER / "local_cpu.yaml")
    targets = {parameter.flag or parameter.env for parameter in space.parameters.values()}
    assert targets >= {
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--enable-chunked-prefill",
        "--enable-prefix-caching",
        "VLLM_CPU_KVCACHE_SPACE",
        "ENGINEX_MOE_TINY_IMPL",
        "ENGINEX_MOE_TINY_MAX",
    }
    assert space.parameters["moe"].baseline == "loop"
    assert space.parameters["max_num_seqs"].baseline == 1
    assert space.parameters["moe_max"].when == "moe != 'native'"
    assert 64 in (space.parameters["kv_space"].choices or ())


def test_the_platforms_space_asks_what_the_platform_asks() -> None:
    space = read("bi100_qwen36.yaml")
    assert space.score.profile == "official"
    assert space.score.gates.model_dump() == {
        "success_rate": 0.99,
        "cache_hit_rate": 0.5,
        "ttft_p90_s": 5,
        "output_tps_p10": 20,
        "weighted": 8000,
    }
    context = Context.of(space, MACHINES[1])
    assert context.facts["workload.total_tokens"] == 245_168
    found = resolve(space, baseline(space, context), context)
    assert "--max-model-len 262144" in " ".join(found.argv)
    assert "--max-num-seqs 1" in " ".join(found.argv)
    exported = set(space.engine.env) | {p.env for p in space.parameters.values() if p.env}
    assert not exported & {"BI100_PROFILE", "BI100_CACHE_TRACE", "NUM_GPU_BLOCKS_OVERRIDE"}


def reasons(space: SearchSpace, context: Context, **changes: Any) -> list[str]:
    start = {**baseline(space, context), **changes}
    return [rule.reason.split(",")[0] for rule in violations(space, start, context)]


def test_what_ended_badly_on_the_platforms_cards_is_not_tried_again() -> None:
    space = read("bi100_qwen36.yaml")
    context = Context.of(space, MACHINES[1])
    assert reasons(space, context, gpu_memory_utilization=0.95, max_num_batched_tokens=12288) == [
        "this pair ended in answers that were not a number"
    ]
    assert reasons(
        space, context, enforce_eager=False, capture=8192, gpu_memory_utilization=0.94
    ) == ["capturing graphs needs memory beside the share; at 0.95 it ended out of memory"]
    shares = space.parameters["gpu_memory_utilization"].choices or ()
    # Blocks of 16 tokens at a share of 0.9, as measured: just enough for one longest sequence.
    assert min(float(str(share)) for share in shares) >= 0.9
    assert 16_878 * 16 > 262_144


def test_what_one_request_at_a_time_never_exercises_is_not_searched(tmp_path: Path) -> None:
    one = read("bi100_qwen36.yaml")
    context = Context.of(one, MACHINES[1])
    assert not {"max_num_seqs", "moe_max"} & baseline(one, context).keys()
    text = one.text.replace("  concurrency: 1\n  image_share", "  concurrency: 4\n  image_share")
    four = parse_space(text, tmp_path / "space.yaml", any_version=True)
    context = Context.of(four, MACHINES[1])
    assert {"max_num_seqs", "moe_max"} <= baseline(four, context).keys()
    assert reasons(four, context, moe_max=4, max_num_seqs=2) == [
        "a step of decoding holds one token a sequence"
    ]
    assert reasons(four, context, moe_max=4, max_num_seqs=4) == []


@pytest.mark.parametrize("name", SHIPPED)
def test_every_space_has_a_section_in_the_reference(name: str) -> None:
    page = Path("docs/reference/search-spaces.md").read_text(encoding="utf-8")
    assert f"## `{name}`" in page
    body = page.split(f"## `{name}`")[1].split("\n## ")[0]
    for parameter in read(name).parameters:
        assert f"`{parameter}`" in body, f"{parameter} of {name} is not explained"


@pytest.mark.parametrize("name", SHIPPED)
def test_its_comments_and_lines_stay_short(name: str) -> None:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize(("devices", "layouts"), [(0, 1), (1, 1), (2, 4), (4, 10), (8, 20)])
def test_layouts_of_a_moe_follow_the_devices(devices: int, layouts: int) -> None:
    space = read("cuda_moe.yaml")
    context = Context.of(space, Hardware(devices, 32, 1 << 38, 80 << 30))
    found = next(axis for axis in axes(space, context) if axis.name == "layout")
    assert found.size == layouts

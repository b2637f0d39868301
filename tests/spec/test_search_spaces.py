"""The search spaces that ship: each is read, resolved and described on machines that it is for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tuner.spec import (
    Context,
    Hardware,
    SearchSpace,
    assignment,
    axes,
    check,
    describe,
    first_points,
    load_space,
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
    assert space.score.gates.weighted == 8000
    assert space.score.gates.ttft_p90_s == 5
    context = Context.of(space, MACHINES[1])
    assert context.facts["workload.total_tokens"] == 245_168
    broken = violations(space, {**first_points(space, context)[0], "moe_max": 16}, context)
    assert [rule.reason.split(",")[0] for rule in broken] == [
        "a step of decoding holds one token a sequence"
    ]


@pytest.mark.parametrize(("devices", "layouts"), [(0, 1), (1, 1), (2, 4), (4, 10), (8, 20)])
def test_layouts_of_a_moe_follow_the_devices(devices: int, layouts: int) -> None:
    space = read("cuda_moe.yaml")
    context = Context.of(space, Hardware(devices, 32, 1 << 38, 80 << 30))
    found = next(axis for axis in axes(space, context) if axis.name == "layout")
    assert found.size == layouts

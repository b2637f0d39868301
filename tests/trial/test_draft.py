"""Drafts of search spaces: whatever the machine, the model and the engine, they are accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.checkpoints import config as model_config
from tuner.build import load_recipe
from tuner.memory.config import ModelConfig, parse_config
from tuner.spec import SearchSpace, parse_space
from tuner.telemetry.hardware import Hardware
from tuner.telemetry.samples import DeviceInfo
from tuner.trial.admission import check_targets
from tuner.trial.draft import KV_SPACE, MOE, MOE_MAX, Ground, draft

MODELS = ("llama_tiny", "qwen36_35b_a3b", "gemma3_tiny")


def hardware(devices: int = 0, memory: int = 32 * 2**30) -> Hardware:
    cards = tuple(
        DeviceInfo(n, f"GPU-{n}", None, "NVIDIA H200", memory_total=141 * 2**30)
        for n in range(devices)
    )
    return Hardware(
        telemetry="nvml" if devices else "none",
        devices=cards,
        processor=None,
        cpu_flags=(),
        cpus=(0, 1),
        cpu_quota=None,
        cores=2,
        physical_cores=2,
        memory_total=memory,
        memory_available=memory,
        machine_memory=memory,
        numa=(),
    )


def ground(recipe: str = "cpu", model: str | None = None, **more: Any) -> Ground:
    loaded = load_recipe(recipe)
    config: ModelConfig | None = parse_config(model_config(model)) if model else None
    plain: dict[str, Any] = {
        "study": "my-study",
        "recipe": recipe,
        "launch": "process" if recipe == "cpu" else "docker",
        "model": f"/models/{model}" if model else None,
        "config": config,
        "hardware": hardware(0 if recipe == "cpu" else 4),
        "on_devices": recipe != "cpu",
        "flags": loaded.flags(),
        "variables": {"VLLM_CPU_KVCACHE_SPACE", "ENGINEX_MOE_TINY_IMPL"},
    }
    return Ground(**{**plain, **more})


def read(one: Ground) -> SearchSpace:
    return parse_space(draft(one), Path("/spaces/draft.yaml"), any_version=True)


@pytest.mark.parametrize("recipe", ["cpu", "cuda"])
@pytest.mark.parametrize("model", [None, *MODELS])
def test_a_draft_is_accepted(recipe: str, model: str | None) -> None:
    variables = (
        {"VLLM_CPU_KVCACHE_SPACE", "ENGINEX_MOE_TINY_IMPL"} if recipe == "cpu" else set[str]()
    )
    space = read(ground(recipe, model, variables=variables))
    check_targets(space)
    assert space.study == "my-study"


def test_what_the_engine_does_not_know_is_not_proposed() -> None:
    flags = {"--max-model-len", "--max-num-seqs", "--max-num-batched-tokens"}
    space = read(ground(flags=flags, variables=set()))
    assert set(space.parameters) == {"max_num_seqs", "max_num_batched_tokens"}
    assert set(space.engine.flags) == {"--max-model-len"}


def test_the_layouts_divide_the_devices_and_the_heads() -> None:
    space = read(ground("cuda", "qwen36_35b_a3b", hardware=hardware(6)))
    assert space.parameters["tensor_parallel"].choices == (1, 2)
    one = read(ground("cuda", "qwen36_35b_a3b", hardware=hardware(1)))
    assert "tensor_parallel" not in one.parameters


def test_experts_are_searched_where_there_are_some() -> None:
    assert "moe" in read(ground()).parameters  # the tiny model has experts
    assert "moe" in read(ground(model="qwen36_35b_a3b")).parameters
    assert "moe" not in read(ground(model="llama_tiny")).parameters


def test_variants_are_those_that_can_be_fastest_where_the_engine_runs() -> None:
    variables = {MOE, MOE_MAX}
    on_cpu = read(ground(variables=variables)).parameters
    assert on_cpu["moe"].choices == ("native", "compiled")
    assert on_cpu["moe_max"].when == "moe != 'native'"
    space = read(ground("bi100", "qwen36_35b_a3b", variables=variables))
    check_targets(space)
    assert space.parameters["moe"].choices == ("native", "tokenwise", "bmm", "direct")


def test_an_engine_for_devices_gets_no_draft_of_a_processor_where_there_are_none() -> None:
    one = ground("bi100", "qwen36_35b_a3b", hardware=hardware(0), variables={KV_SPACE, MOE})
    space = read(one)
    assert "kv_space" not in space.parameters
    assert "gpu_memory_utilization" in space.parameters
    assert "--enforce-eager" not in space.engine.flags
    assert "no devices, which this engine needs" in draft(one)
    assert "--enable-prompt-tokens-details" not in draft(one)  # vLLM 0.6.3 has no such flag


def test_the_kv_space_fits_the_host() -> None:
    sizes = read(ground(hardware=hardware(memory=10 * 2**30))).parameters["kv_space"].choices
    assert sizes == (1, 2)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    devices=st.integers(0, 16),
    memory=st.integers(2**28, 2**42),
    model=st.sampled_from([None, *MODELS]),
    path=st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1).map(
        "/m/{}".format
    ),
    chunked=st.booleans(),
)
def test_any_machine_and_any_path_give_a_sound_space(
    devices: int, memory: int, model: str | None, path: str, *, chunked: bool
) -> None:
    flags = set(load_recipe("cuda").flags() or ())
    if not chunked:
        flags -= {"--enable-chunked-prefill", "--no-enable-chunked-prefill"}
    one = ground(
        "cuda" if devices else "cpu",
        model,
        hardware=hardware(devices, memory),
        on_devices=devices > 0,
        flags=flags,
    )
    one = replace(one, model=path if model else None)
    space = read(one)
    if model:
        assert str(space.models[0].path) == str(Path(path))

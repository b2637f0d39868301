"""The switch around vLLM's real class and kernels, without a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from moe.cases import Case, make
from moe.stand_in import real, step

from enginex.moe.names import AUTO, COMPILED, NATIVE, VARIANTS
from enginex.moe.reference import reference
from enginex.moe.switch import MoeSwitch
from enginex.native.build import library_path
from enginex.settings import Settings
from enginex.vllm_cpu import patch_experts

cpu_moe = pytest.importorskip("vllm.model_executor.layers.fused_moe.experts.cpu_moe")
OURS = [
    v for v in VARIANTS if v not in {NATIVE, AUTO} and (v != COMPILED or library_path().exists())
]


@pytest.fixture(params=["amx", "vec"])
def layer_of(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "amx" and not torch.cpu._is_amx_tile_supported():
        pytest.skip("this processor has no AMX")
    parent = cpu_moe.CPUUnquantizedExperts
    saved = parent.process_weights_after_loading, parent.apply
    switches: list[MoeSwitch] = []

    def load(settings: Settings, case: Case) -> tuple[Any, Any, list[str]]:
        lines: list[str] = []
        switch = MoeSwitch(settings, write=lines.append)
        switches.append(switch)
        patch_experts(cpu_moe, switch)
        cls = cpu_moe.X86CPUUnquantizedExperts if request.param == "amx" else parent
        experts, layer = real(cls, case)
        switch.announce()
        return experts, layer, lines

    yield load
    parent.process_weights_after_loading, parent.apply = saved
    for switch in switches:
        switch.steps.stop()


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(("inner", "biased"), [(64, False), (48, True), (40, False)])
def test_a_variant_agrees_with_vllm_on_padded_and_biased_layers(
    layer_of: Any,
    name: str,
    inner: int,
    biased: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    case = make(5, 3, 8, 64, inner, 2, biased=biased)
    settings = Settings(moe=True, moe_impl=name, moe_max=4)
    experts, layer, lines = layer_of(settings, case)
    assert f"effective={name} " in lines[0]
    exact = reference(*case.tensors)
    for tokens in (1, 3):
        few = case.hidden[:tokens], case.weights[:tokens], case.ids[:tokens].to(torch.int32)
        out = step(experts, layer, *few).double()
        away = torch.linalg.vector_norm(out - exact[:tokens]) / torch.linalg.vector_norm(
            exact[:tokens]
        )
        assert float(away) < 0.01
    many = make(6, 9, 8, 64, inner, 2)  # above the limit, so that vLLM computes
    out = step(experts, layer, many.hidden, many.weights, many.ids.to(torch.int32))
    exact = reference(many.hidden, case.w13, case.w2, many.weights, many.ids, case.form)
    assert (
        float(torch.linalg.vector_norm(out.double() - exact) / torch.linalg.vector_norm(exact))
        < 0.01
    )


@pytest.mark.skipif(not library_path().exists(), reason="needs the compiled kernel")
def test_the_compiled_kernel_keeps_no_second_copy(layer_of: Any) -> None:
    case = make(5, 1, 64, 256, 128, 8)
    _, _, lines = layer_of(Settings(moe=True, moe_impl="compiled"), case)
    assert "effective=compiled" in lines[0]
    assert "kept_mib=0" in lines[0]
    _, _, lines = layer_of(Settings(moe=True, moe_impl="loop"), case)
    assert "kept_mib=12" in lines[0]


@pytest.mark.skipif(not library_path().exists(), reason="needs the compiled kernel")
@pytest.mark.skipif(not torch.cpu._is_amx_tile_supported(), reason="this processor has no AMX")
def test_the_check_at_load_time_asks_linux_for_amx() -> None:
    """In a process that has not multiplied anything yet, vLLM's AMX kernel alone would be an illegal instruction."""
    here = Path(__file__)
    code = f"import sys; sys.path.insert(0, {str(here.parent.parent)!r}); import moe.first_use"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "effective=compiled" in done.stdout

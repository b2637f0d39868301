"""The path for vLLM 0.6.3, on a tree of modules of the same names, signatures and calling manner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from moe.cases import make

from enginex import vllm_063
from enginex.moe.names import TORCH_VARIANTS
from enginex.moe.reference import reference
from enginex.moe.router import softmax_topk
from enginex.settings import Settings

LAYER = """
import torch


class UnquantizedFusedMoEMethod:
    def apply(self, layer, x, router_logits, top_k, renormalize, use_grouped_topk, topk_group=None,
              num_expert_group=None, custom_routing_function=None):
        return torch.full_like(x, 7.0)


class FusedMoE(torch.nn.Module):
    def __init__(self, w13, w2, top_k, renormalize=True, use_grouped_topk=False, custom=None):
        super().__init__()
        self.w13_weight = torch.nn.Parameter(w13, requires_grad=False)
        self.w2_weight = torch.nn.Parameter(w2, requires_grad=False)
        self.top_k, self.renormalize, self.grouped, self.custom = top_k, renormalize, use_grouped_topk, custom
        self.quant_method = UnquantizedFusedMoEMethod()

    def forward(self, hidden_states, router_logits):
        return self.quant_method.apply(
            self, x=hidden_states, router_logits=router_logits, top_k=self.top_k, renormalize=self.renormalize,
            use_grouped_topk=self.grouped, topk_group=None, num_expert_group=None,
            custom_routing_function=self.custom)
"""


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A fresh ``fused_moe.layer``, and a ``vllm.distributed`` of rank 1."""
    module = ModuleType("vllm.model_executor.layers.fused_moe.layer")
    exec(LAYER, vars(module))  # noqa: S102 - our own text, from above
    vllm = ModuleType("vllm")
    vllm.distributed = SimpleNamespace(  # type: ignore[attr-defined] - what the path reads
        get_tensor_model_parallel_rank=lambda: 1
    )
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    return module


def switched(layer: ModuleType, **asked: Any) -> tuple[vllm_063.OldSwitch, list[str]]:
    lines: list[str] = []
    switch = vllm_063.OldSwitch(Settings(moe=True, **asked), write=lines.append)
    vllm_063.patch_method(layer, switch)
    return switch, lines


@pytest.mark.parametrize("name", TORCH_VARIANTS)
@pytest.mark.parametrize("renormalize", [True, False])
def test_steps_of_few_tokens_are_ours_and_right(
    layer: ModuleType,
    name: str,
    renormalize: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    case = make(3, 4, 8, 32, 16, 2, dtype=torch.float32)
    logits = torch.randn(4, 8)
    switch, lines = switched(layer, moe_impl=name, moe_max=2)
    experts = layer.FusedMoE(case.w13, case.w2, 2, renormalize)
    weights, ids = softmax_topk(logits, 2, renormalize=renormalize)
    exact = reference(case.hidden[:2], case.w13, case.w2, weights[:2], ids[:2])
    found = experts(case.hidden[:2], logits[:2])
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-5)
    assert bool((experts(case.hidden, logits) == 7).all())  # more tokens than the limit
    switch.steps.stop()
    assert lines[0].startswith(
        f"[enginex] moe variant={name} max_tokens=2 effective={name} dtype=fp32"
    )
    assert " rank=1 tested=stand_in " in lines[0]
    assert "tiny=1 native=1 tokens=6 by_tokens={2:1,4:1}" in lines[-1]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"moe_impl": "compiled"}, "compiled_is_not_for_this_engine"),
        ({"moe_impl": "loop", "moe_max": 0}, "max_tokens_is_0"),
    ],
)
def test_what_cannot_run_leaves_the_engine_alone(
    layer: ModuleType, asked: dict[str, Any], reason: str
) -> None:
    case = make(3, 1, 8, 32, 16, 2)
    switch, lines = switched(layer, **asked)
    experts = layer.FusedMoE(case.w13, case.w2, 2)
    assert bool((experts(case.hidden, torch.randn(1, 8)) == 7).all())
    switch.steps.stop()
    assert f"effective=native reason={reason}" in lines[0]


@pytest.mark.parametrize("other", [{"use_grouped_topk": True}, {"custom": lambda: None}])
def test_other_ways_to_choose_experts_stay_with_the_engine(
    layer: ModuleType, other: dict[str, Any]
) -> None:
    case = make(3, 1, 8, 32, 16, 2)
    switch, lines = switched(layer, moe_impl="loop")
    experts = layer.FusedMoE(case.w13, case.w2, 2, **other)
    assert bool((experts(case.hidden, torch.randn(1, 8)) == 7).all())
    switch.steps.stop()
    assert lines == []


def test_the_plugin_takes_this_path_by_the_version(tmp_path: Path) -> None:
    """A whole tree on disk, in a process of its own: the plugin, the import, the patch, a step."""
    files = {
        "vllm/__init__.py": '__version__ = "0.6.3"\n',
        "vllm/distributed/__init__.py": "def get_tensor_model_parallel_rank():\n    return 0\n",
        "vllm/model_executor/__init__.py": "",
        "vllm/model_executor/layers/__init__.py": "",
        "vllm/model_executor/layers/fused_moe/__init__.py": (
            "from vllm.model_executor.layers.fused_moe.layer import FusedMoE\n"
        ),
        "vllm/model_executor/layers/fused_moe/layer.py": LAYER,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from enginex.plugin import register; register()\n"
        "import torch\n"
        "from vllm.model_executor.layers.fused_moe import FusedMoE\n"
        "moe = FusedMoE(torch.zeros(4, 8, 6), torch.zeros(4, 6, 4), 2)\n"
        "print(float(moe(torch.ones(1, 6), torch.randn(1, 4)).sum()), "
        "float(moe(torch.ones(9, 6), torch.randn(9, 4)).sum()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            "PATH": "/usr/bin:/bin",
            "ENGINEX_MOE_TINY_IMPL": "bmm",
            "ENGINEX_NUMERIC_WATCH": "1",
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0.0", "378.0"]
    assert "[enginex] observe effective=off reason=engine_is_0.6.3" in done.stderr
    assert "[enginex] moe variant=bmm max_tokens=4 effective=bmm " in done.stderr

"""Layers of routed experts as vLLM's modular kernel presents them, around vLLM's real class or a stand-in for it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from moe.cases import Case
from torch import Tensor

from enginex.moe.contract import Form
from enginex.moe.reference import reference


class Activation:
    """As vLLM's enumeration: a name under ``value``."""

    def __init__(self, value: str) -> None:
        self.value = value


def config(
    w2: Tensor, topk: int, activation: str = "silu", *, use_ep: bool = False, rank: int = 0
) -> Any:
    return SimpleNamespace(
        experts_per_token=topk,
        activation=Activation(activation),
        in_dtype=w2.dtype,
        intermediate_size_per_partition=w2.shape[2],
        moe_parallel_config=SimpleNamespace(use_ep=use_ep, tp_rank=rank),
    )


class Experts:
    """A stand-in for ``CPUUnquantizedExperts``: packs nothing and computes in float64."""

    isa = "neon"  # a layout that the compiled kernel does not read

    def __init__(self, cfg: Any, b13: Tensor | None = None, b2: Tensor | None = None) -> None:
        self.moe_config = cfg
        self.w1_bias, self.w2_bias = b13, b2
        self.calls = 0
        self.wrong_by = 0.0

    def process_weights_after_loading(self, layer: Any) -> None:
        layer.w13_weight = torch.nn.Parameter(layer.w13_weight.data.clone(), requires_grad=False)
        layer.w2_weight = torch.nn.Parameter(layer.w2_weight.data.clone(), requires_grad=False)

    def apply(
        self, *, output: Tensor, hidden_states: Tensor, w1: Tensor, w2: Tensor, **rest: Any
    ) -> None:
        self.calls += 1
        weights = rest["topk_weights"]
        if rest["apply_router_weight_on_input"]:
            weights = torch.ones_like(weights)
        form = Form(rest["activation"].value, self.w1_bias, self.w2_bias)
        output.copy_(reference(hidden_states, w1, w2, weights, rest["topk_ids"], form))
        output.add_(self.wrong_by)


def loaded(w13: Tensor, w2: Tensor) -> Any:
    return SimpleNamespace(
        w13_weight=torch.nn.Parameter(w13, requires_grad=False),
        w2_weight=torch.nn.Parameter(w2, requires_grad=False),
    )


def real(cls: type, case: Case) -> tuple[Any, Any]:
    """Load a layer into one of vLLM's own classes, past a constructor that wants the whole configuration."""
    experts: Any = object.__new__(cls)
    experts.moe_config = config(case.w2, case.ids.shape[1], case.form.activation)
    layer = torch.nn.Module()
    layer.w13_weight = torch.nn.Parameter(case.w13.clone(), requires_grad=False)
    layer.w2_weight = torch.nn.Parameter(case.w2.clone(), requires_grad=False)
    b13, b2 = case.form.b13, case.form.b2
    if b13 is not None and b2 is not None:
        layer.w13_bias = torch.nn.Parameter(b13.clone(), requires_grad=False)
        layer.w2_bias = torch.nn.Parameter(b2.clone(), requires_grad=False)
    experts.quant_config = SimpleNamespace(
        w1_bias=getattr(layer, "w13_bias", None), w2_bias=getattr(layer, "w2_bias", None)
    )
    experts.process_weights_after_loading(layer)
    return experts, layer


def step(
    experts: Any, layer: Any, hidden: Tensor, weights: Tensor, ids: Tensor, **changes: Any
) -> Tensor:
    """Compute one layer of one step as vLLM's modular kernel does."""
    output = torch.full_like(hidden, float("nan"))
    apply: Callable[..., None] = experts.apply
    apply(
        output=output,
        hidden_states=hidden,
        w1=layer.w13_weight,
        w2=layer.w2_weight,
        **{
            "topk_weights": weights,
            "topk_ids": ids,
            "activation": experts.moe_config.activation,
            "global_num_experts": layer.w2_weight.shape[0],
            "expert_map": None,
            "a1q_scale": None,
            "a2_scale": None,
            "workspace13": None,
            "workspace2": None,
            "expert_tokens_meta": None,
            "apply_router_weight_on_input": False,
            **changes,
        },
    )
    return output

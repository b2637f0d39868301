"""Who computes a step's routed experts: the variant that was asked for, or the engine.

The engine's own path is taken above the limit of tokens and wherever the variant cannot run: an activation that
the contract does not know, experts spread over ranks (an expert map), weights that another library packed,
or a result that disagrees with the engine's. The marker line says which, once a model is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from enginex import lines
from enginex.moe import registry
from enginex.moe.contract import ACTIVATIONS, DTYPES, PLAIN, Form, Variant, check
from enginex.moe.names import NATIVE
from enginex.moe.steps import StepCounter
from enginex.settings import Settings

__all__ = ["Layer", "MoeSwitch"]

Native = Callable[..., None]

_AGREES = 0.05
"""Largest relative distance (in the 2-norm) between the variant's and the engine's result at load time. Rounding
in bf16 makes about 0.005; a wrong layout or a wrong activation makes about 1."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of routed experts as it was loaded.

    Attributes:
        experts: The engine's object for the layer.
        module: The module that holds the engine's packed weights.
        w13: [E, 2I, H].
        w2: [E, H, I].
        native: Computes the layer as the engine does.
    """

    experts: Any
    module: Any
    w13: Tensor
    w2: Tensor
    native: Native


class MoeSwitch:
    """Sends the steps of few tokens to a variant, in every layer of routed experts.

    Args:
        settings: What the environment asks for.
        write: Where the marker lines go.
    """

    def __init__(self, settings: Settings, write: Callable[[str], None] = lines.emit) -> None:
        self.steps = StepCounter(write=write)
        self._settings = settings
        self._write = write
        self._layers: dict[int, Layer] = {}
        self._counting: int | None = None
        self._variant: Variant | None = None
        self._announced = False
        self._serving: Callable[[], bool] = _serving()

    def adopt(
        self, experts: Any, module: Any, weights: tuple[Tensor, Tensor], native: Native
    ) -> None:
        """Take note of a layer whose weights have just been packed."""
        key = id(experts)
        if self._counting is None:
            self._counting = key
        if (
            self._settings.moe_impl == NATIVE
        ):  # shapes are enough, and keeping weights would double them
            weights = (weights[0].to("meta"), weights[1].to("meta"))
        self._layers[key] = Layer(experts, module, *weights, native)
        self._announced = False

    def compute(self, experts: Any, native: Native, tensors: Mapping[str, Any]) -> None:
        """Compute one layer of one step into ``tensors["output"]``."""
        if not self._announced:
            self.announce()
        hidden: Tensor = tensors["hidden_states"]
        tokens = hidden.shape[0]
        key = id(experts)
        layer = self._layers.get(key)
        variant = self._variant
        tiny = (
            variant is not None
            and layer is not None
            and 0 < tokens <= self._settings.moe_max
            and tensors["expert_map"] is None
        )
        if key == self._counting and self._serving():
            self.steps.add("tiny" if tiny else "native", tokens)
        if tiny and variant is not None and layer is not None:
            tensors["output"].copy_(_run(variant, layer, tensors))
        else:
            native(experts, **tensors)

    def announce(self) -> None:
        """Settle whether the variant takes effect, print the marker, and free what is not needed."""
        if self._announced:
            return
        self._announced = True
        layers = list(self._layers.values())
        reason = self._why_not(layers)
        wanted = self._settings.moe_impl
        if wanted != NATIVE and reason is None:
            self._variant = registry.get(wanted)
        else:
            self._variant = None
        self._write(lines.render("moe", self._marker(layers, reason)))
        if self._variant is None:
            # The weights as loaded would only take memory.
            self._layers.clear()
        self.steps.start()

    def _why_not(self, layers: list[Layer]) -> str | None:
        """Say in one word why the variant cannot run, or None when it can."""
        if not layers:
            return "no_unquantized_experts"
        if self._settings.moe_impl == NATIVE:
            return None
        if self._settings.moe_max == 0:
            return "max_tokens_is_0"
        for layer in layers:
            reason = _unsupported(layer)
            if reason is not None:
                return reason
        distance = _disagreement(
            registry.get(self._settings.moe_impl), layers[0], self._settings.moe_max
        )
        return None if distance <= _AGREES else f"disagrees_by_{distance:.3g}"

    def _marker(self, layers: list[Layer], reason: str | None) -> dict[str, object]:
        """List the fields of the marker line."""
        fields: dict[str, object] = {
            "variant": self._settings.moe_impl,
            "max_tokens": self._settings.moe_max,
            "effective": self._settings.moe_impl if self._variant is not None else NATIVE,
            "reason": reason,
            "layers": len(layers),
        }
        if layers:
            first = layers[0]
            kept = layers if self._variant is not None else []
            size = sum(t.numel() * t.element_size() for x in kept for t in (x.w13, x.w2))
            fields |= {
                "dtype": lines.short_dtype(first.w13.dtype),
                "experts": first.w13.shape[0],
                "topk": first.experts.moe_config.experts_per_token,
                "hidden": first.w13.shape[2],
                "inter": first.w2.shape[2],
                "kept_mib": round(size / 2**20),
                "rank": first.experts.moe_config.moe_parallel_config.tp_rank,
            }
        return fields | {"pid": os.getpid()}


def _unsupported(layer: Layer) -> str | None:
    """Say in one word what the contract does not cover in this layer."""
    config = layer.experts.moe_config
    activation = config.activation.value
    if getattr(layer.experts, "_use_zentorch", False):
        return "weights_packed_by_zentorch"
    if config.moe_parallel_config.use_ep:
        return "expert_parallel"
    if activation not in ACTIVATIONS:
        return f"activation_{activation}"
    if layer.w13.dtype not in DTYPES or config.in_dtype != layer.w13.dtype:
        return f"dtype_{lines.short_dtype(layer.w13.dtype)}"
    return None


def _run(variant: Variant, layer: Layer, tensors: Mapping[str, Any]) -> Tensor:
    """Run a variant on what the engine gave."""
    weights: Tensor = tensors["topk_weights"]
    if tensors["apply_router_weight_on_input"]:  # the engine has multiplied the input already
        weights = torch.ones_like(weights)
    return variant(
        tensors["hidden_states"],
        layer.w13,
        layer.w2,
        weights,
        tensors["topk_ids"],
        _form(layer, tensors["activation"].value),
    )


def _form(layer: Layer, activation: str) -> Form:
    b13, b2 = layer.experts.w1_bias, layer.experts.w2_bias
    if activation == PLAIN.activation and b13 is None and b2 is None:
        return PLAIN
    return Form(activation, _unpadded(b13, layer.w13.shape[1]), b2)


def _unpadded(bias: Tensor | None, rows: int) -> Tensor | None:
    """Cut the zeros with which the engine pads both halves out of [E, 2·padded]: [E, rows]."""
    if bias is None or bias.shape[1] == rows:
        return bias
    half = bias.shape[1] // 2
    return torch.cat([bias[:, : rows // 2], bias[:, half : half + rows // 2]], dim=1)


def _disagreement(variant: Variant, layer: Layer, most: int) -> float:
    """Compare the variant with the engine on random tokens: relative distance in the 2-norm."""
    made = torch.Generator().manual_seed(0)
    tokens, topk = min(most, 4), layer.experts.moe_config.experts_per_token
    hidden = torch.randn(tokens, layer.w13.shape[2], generator=made).to(layer.w13.dtype)
    scores = torch.randn(tokens, layer.w13.shape[0], generator=made)
    weights, ids = torch.topk(scores.softmax(-1), topk)
    tensors: dict[str, Any] = {
        "hidden_states": hidden,
        "topk_weights": weights,
        "topk_ids": ids.to(torch.int32),
        "activation": layer.experts.moe_config.activation,
        "apply_router_weight_on_input": False,
    }
    form = _form(layer, tensors["activation"].value)
    check(hidden, layer.w13, layer.w2, weights, ids, form)
    ours = _run(variant, layer, tensors).float()
    theirs = torch.empty_like(hidden)
    layer.native(
        layer.experts,
        **tensors,
        output=theirs,
        w1=layer.module.w13_weight,
        w2=layer.module.w2_weight,
        global_num_experts=layer.w13.shape[0],
        expert_map=None,
        a1q_scale=None,
        a2_scale=None,
        workspace13=None,
        workspace2=None,
        expert_tokens_meta=None,
    )
    away = torch.linalg.vector_norm(ours - theirs.float())
    size = torch.linalg.vector_norm(theirs.float())
    return float(away / size) if float(size) > 0 else float(away)


def _serving() -> Callable[[], bool]:
    """Make a test for a step of real requests, as against one of the engine's dry runs."""
    try:
        from vllm import forward_context  # noqa: PLC0415 - absent where the variants are used alone
    except ImportError:
        return lambda: True

    def serving() -> bool:
        if not forward_context.is_forward_context_available():
            return False
        return forward_context.get_forward_context().attn_metadata is not None

    return serving

"""One layer of routed experts inside vLLM, and how a variant is run on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from enginex.moe import registry
from enginex.moe.contract import ACTIVATIONS, DTYPES, PLAIN, Form, check
from enginex.moe.names import COMPILED
from enginex.native import library
from enginex.native.library import Experts, Layout

__all__ = ["Layer", "Native", "Runner", "disagreement", "runner", "unsupported"]

Native = Callable[..., None]
"""vLLM's own computation of a layer, with the experts object first and tensors by keyword."""

Runner = Callable[[Mapping[str, Any]], None]
"""Computes a layer of one step from vLLM's tensors into ``tensors["output"]``."""

_LAYOUTS = {"amx": Layout.PAIRS, "vec": Layout.LANES}
"""How vLLM packs for its instruction sets, where the compiled kernel reads that."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer as it was loaded.

    Attributes:
        experts: vLLM's object for the layer.
        module: The module that holds vLLM's packed weights.
        native: Computes the layer as vLLM does.
        rows: w13 [E, 2I, H] and w2 [E, H, I] as loaded, unless nothing needs them.
        dtype: Of the weights.
        experts_count: E on this rank.
        width: H.
        inner: I on this rank, without padding.
        topk: k.
        rank: Tensor-parallel rank.
    """

    experts: Any
    module: Any
    native: Native
    rows: tuple[Tensor, Tensor] | None
    dtype: torch.dtype
    experts_count: int
    width: int
    inner: int
    topk: int
    rank: int

    @classmethod
    def of(cls, experts: Any, module: Any, rows: tuple[Tensor, Tensor], native: Native) -> Layer:
        """Describe a layer whose weights have just been packed."""
        count, width, inner = rows[1].shape
        config = experts.moe_config
        rank = config.moe_parallel_config.tp_rank
        dtype = rows[0].dtype
        return cls(
            experts,
            module,
            native,
            rows,
            dtype,
            count,
            width,
            inner,
            config.experts_per_token,
            rank,
        )

    def without_rows(self) -> Layer:
        """Let the weights as loaded go."""
        return replace(self, rows=None)

    def kept_bytes(self) -> int:
        """Count the memory that the weights as loaded take on top of the packed ones."""
        return 0 if self.rows is None else sum(w.numel() * w.element_size() for w in self.rows)

    def resident(self) -> list[Tensor]:
        """List all weights that stay in memory."""
        return [self.module.w13_weight, self.module.w2_weight, *(self.rows or ())]

    def readable_packed(self) -> bool:
        """Whether the compiled kernel reads vLLM's packed weights as they lie."""
        layout = _LAYOUTS.get(self.experts.isa)
        if layout is None or self.width % 32 or self.module.w2_weight.shape[2] % 32:
            return False
        try:
            return library.load().reads(self.dtype, layout)
        except library.NotBuilt:
            return False

    def packed(self, activation: str) -> Experts:
        """Describe vLLM's packed weights to the compiled kernel, padding and all."""
        w13, w2 = self.module.w13_weight.data, self.module.w2_weight.data
        form = self.form(activation, 2 * w2.shape[2])
        return Experts(w13, w2, *w2.shape, _LAYOUTS[self.experts.isa], form)

    def form(self, activation: str, rows: int) -> Form:
        """Take activation and biases, with ``rows`` elements in each expert's b13."""
        b13, b2 = self.experts.w1_bias, self.experts.w2_bias
        if activation == PLAIN.activation and b13 is None and b2 is None:
            return PLAIN
        return Form(activation, _unpadded(b13, rows), b2)


def unsupported(layer: Layer) -> str | None:
    """Say in one word what the contract does not cover in this layer, or None."""
    config = layer.experts.moe_config
    activation = config.activation.value
    if getattr(layer.experts, "_use_zentorch", False):
        return "weights_packed_by_zentorch"
    if config.moe_parallel_config.use_ep:
        return "expert_parallel"
    if activation not in ACTIVATIONS:
        return f"activation_{activation}"
    if layer.dtype not in DTYPES or config.in_dtype != layer.dtype:
        return f"dtype_{str(layer.dtype).removeprefix('torch.')}"
    return None


def runner(name: str, layer: Layer) -> Runner:
    """Make what runs a variant on a layer.

    Raises:
        NotBuilt: The compiled kernel is asked for and was not built.
    """
    activation = layer.experts.moe_config.activation.value
    if name == COMPILED:
        kernels = library.load()
        if layer.readable_packed():
            packed = layer.packed(activation)
        else:
            packed = Experts.of_rows(*_rows(layer), layer.form(activation, 2 * layer.inner))

        def run_compiled(tensors: Mapping[str, Any]) -> None:
            out = tensors["output"]
            hidden, ids = tensors["hidden_states"], tensors["topk_ids"]
            if out.is_contiguous():
                kernels.moe(packed, hidden, _weights(tensors), ids, out)
            else:
                out.copy_(kernels.moe(packed, hidden, _weights(tensors), ids))

        return run_compiled

    variant = registry.get(name)
    w13, w2 = _rows(layer)
    form = layer.form(activation, 2 * layer.inner)

    def run(tensors: Mapping[str, Any]) -> None:
        tensors["output"].copy_(
            variant(tensors["hidden_states"], w13, w2, _weights(tensors), tensors["topk_ids"], form)
        )

    return run


def disagreement(run: Runner, layer: Layer, most: int) -> float:
    """Compare a variant with vLLM on random tokens: relative distance in the 2-norm, NaN if either made one."""
    made = torch.Generator().manual_seed(0)
    tokens = min(most, 4)
    hidden = torch.randn(tokens, layer.width, generator=made).to(layer.dtype)
    scores = torch.randn(tokens, layer.experts_count, generator=made)
    weights, ids = torch.topk(scores.softmax(-1), layer.topk)
    activation = layer.experts.moe_config.activation
    if layer.rows is not None:
        check(hidden, *layer.rows, weights, ids, layer.form(activation.value, 2 * layer.inner))
    tensors: dict[str, Any] = {
        "hidden_states": hidden,
        "topk_weights": weights,
        "topk_ids": ids.to(torch.int32),
        "activation": activation,
        "apply_router_weight_on_input": False,
    }
    ours, theirs = torch.empty_like(hidden), torch.empty_like(hidden)
    if getattr(layer.experts, "isa", None) == "amx":
        # Linux kills a process that uses AMX before it asked for it. In vLLM it is oneDNN that asks, at the first
        # product of a step, and no step has run yet.
        torch.cpu._init_amx()  # noqa: SLF001 - torch has no public name for it
    run({**tensors, "output": ours})
    layer.native(
        layer.experts,
        **tensors,
        output=theirs,
        w1=layer.module.w13_weight,
        w2=layer.module.w2_weight,
        global_num_experts=layer.experts_count,
        expert_map=None,
        a1q_scale=None,
        a2_scale=None,
        workspace13=None,
        workspace2=None,
        expert_tokens_meta=None,
    )
    away = torch.linalg.vector_norm(ours.double() - theirs.double())
    size = torch.linalg.vector_norm(theirs.double())
    return float(away / size) if float(size) > 0 else float(away)


def _rows(layer: Layer) -> tuple[Tensor, Tensor]:
    if layer.rows is None:
        raise AssertionError("the weights as loaded were let go although a variant reads them")
    return layer.rows


def _weights(tensors: Mapping[str, Any]) -> Tensor:
    weights: Tensor = tensors["topk_weights"]
    # Where the router's weight goes on the input, vLLM has multiplied it in already.
    return torch.ones_like(weights) if tensors["apply_router_weight_on_input"] else weights


def _unpadded(bias: Tensor | None, rows: int) -> Tensor | None:
    """Cut the zeros with which vLLM pads both halves out of [E, 2·padded]: [E, rows]."""
    if bias is None or bias.shape[1] == rows:
        return bias
    half = bias.shape[1] // 2
    return torch.cat([bias[:, : rows // 2], bias[:, half : half + rows // 2]], dim=1)

"""vLLM 0.6.3, the generation that vendors of other accelerators forked: where its routed experts are switched.

There an unquantized layer's experts are computed by ``UnquantizedFusedMoEMethod.apply(layer, x, router_logits, …)``,
which chooses the experts as well, with a kernel that some vendors' libraries lack. For a step of few tokens the choice
(:mod:`enginex.moe.router`) and the sum are made by plain torch operations here; grouped routing, a model's own
routing function and larger steps stay with the engine.

This path was exercised on a stand-in of the engine's modules and never on the engine itself, and the marker says so:
``tested=stand_in``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from enginex import lines
from enginex.afterimport import after_import
from enginex.moe.names import NATIVE, TORCH_VARIANTS
from enginex.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["OldSwitch", "install", "patch_method"]

_LAYER = "vllm.model_executor.layers.fused_moe.layer"


def install(settings: Settings) -> None:
    """Arrange that vLLM's experts are switched once a process imports them, and say what cannot be had here."""
    if settings.observes:
        lines.emit(lines.render("observe", {"effective": "off", "reason": "engine_is_0.6.3"}))
    if settings.moe:
        after_import(_LAYER, lambda module: patch_method(module, OldSwitch(settings)))


class OldSwitch:
    """Sends the steps of few tokens to a variant.

    Args:
        settings: What the environment asks for.
        write: Where the marker line goes.
    """

    def __init__(self, settings: Settings, write: Callable[[str], None] = lines.emit) -> None:
        from enginex.moe.steps import StepCounter  # noqa: PLC0415 - as late as a model

        self.steps = StepCounter(write=write)
        self._settings = settings
        self._write = write
        self._announced = False
        self._counting: int | None = None
        self._run: Callable[..., Tensor] | None = None

    def compute(
        self, layer: Any, x: Tensor, logits: Tensor, topk: int, *, renormalize: bool
    ) -> Tensor | None:
        """Compute a layer of a step, or return None where the engine is to do it."""
        if not self._announced:
            self._announce(layer, x, topk)
        tokens = x.shape[0]
        run = self._run if 0 < tokens <= self._settings.moe_max else None
        if self._counting == id(layer):
            self.steps.add(NATIVE if run is None else self._settings.moe_impl, tokens)
        if run is None:
            return None
        from enginex.moe import router  # noqa: PLC0415 - as late as torch

        weights, ids = (
            router.topk_softmax(logits, topk)
            if renormalize
            else router.softmax_topk(logits, topk, renormalize=False)
        )
        return run(x, layer.w13_weight.data, layer.w2_weight.data, weights, ids)

    def _announce(self, layer: Any, x: Tensor, topk: int) -> None:
        """Settle whether the variant takes effect, and print the marker. The engine's dry run comes here first."""
        from enginex.moe import registry  # noqa: PLC0415 - as late as torch

        self._announced, self._counting = True, id(layer)
        wanted, reason = self._settings.moe_impl, None
        if wanted != NATIVE and wanted not in TORCH_VARIANTS:
            reason = f"{wanted}_is_not_for_this_engine"
        elif wanted != NATIVE and self._settings.moe_max == 0:
            reason = "max_tokens_is_0"
        elif wanted != NATIVE:
            self._run = registry.get(wanted)
        experts, double, width = layer.w13_weight.shape
        fields = {
            "variant": wanted,
            "max_tokens": self._settings.moe_max,
            "effective": NATIVE if self._run is None else wanted,
            "reason": reason,
            "dtype": lines.short_dtype(x.dtype),
            "experts": experts,
            "topk": topk,
            "hidden": width,
            "inter": double // 2,
            "kept_mib": 0,
            "rank": _rank(),
            "tested": "stand_in",
            "pid": os.getpid(),
        }
        self._write(lines.render("moe", fields))
        self.steps.start()


def patch_method(module: ModuleType, switch: OldSwitch) -> None:
    """Wrap ``UnquantizedFusedMoEMethod.apply``, whose arguments come by keyword but for the first two."""
    cls = module.UnquantizedFusedMoEMethod
    native = cls.apply

    def apply(method: Any, layer: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        ours = not args and _plain(kwargs)
        if ours:
            found = switch.compute(
                layer,
                x,
                kwargs["router_logits"],
                kwargs["top_k"],
                renormalize=kwargs["renormalize"],
            )
            if found is not None:
                return found
        return native(method, layer, x, *args, **kwargs)

    cls.apply = apply


def _plain(asked: dict[str, Any]) -> bool:
    """Whether the experts are chosen by softmax and the k largest, and by nothing else."""
    return (
        {"router_logits", "top_k", "renormalize"} <= set(asked)
        and not asked.get("use_grouped_topk")
        and asked.get("custom_routing_function") is None
    )


def _rank() -> int:
    from vllm import distributed  # noqa: PLC0415 - vLLM is there when a model runs

    return int(distributed.get_tensor_model_parallel_rank())

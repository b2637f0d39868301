"""vLLM's CPU path: where its routed experts are switched.

vLLM 0.32 computes unquantized experts on a CPU in ``CPUUnquantizedExperts`` and its subclasses, one object a
layer: ``process_weights_after_loading`` packs the weights and ``apply`` computes a step. Both are wrapped here.
The weights as loaded are kept next to the packed ones (by reference: it is the packing that copies), and
:class:`~enginex.moe.switch.MoeSwitch` decides step by step who computes.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from enginex.afterimport import after_import
from enginex.moe.policy import Policy
from enginex.settings import Settings

if TYPE_CHECKING:
    from enginex.moe.switch import MoeSwitch

__all__ = ["install"]

_EXPERTS = "vllm.model_executor.layers.fused_moe.experts.cpu_moe"
_LOADER = "vllm.model_executor.model_loader.base_loader"


def install(settings: Settings, policy: Policy | None = None) -> None:
    """Arrange that vLLM's modules are patched once a process imports them.

    Args:
        settings: What the environment asks for.
        policy: The content of the policy file, where one is named.
    """
    made: list[MoeSwitch] = []

    def switch() -> MoeSwitch:
        from enginex.moe.switch import MoeSwitch  # noqa: PLC0415 - needs torch, which vLLM has by now

        if not made:
            made.append(MoeSwitch(settings, policy))
        return made[0]

    after_import(_EXPERTS, lambda module: patch_experts(module, switch()))
    after_import(_LOADER, lambda module: patch_loader(module, switch()))


def patch_experts(module: ModuleType, switch: MoeSwitch) -> None:
    """Wrap the two methods of vLLM's unquantized experts."""
    cls = module.CPUUnquantizedExperts
    pack, native = cls.process_weights_after_loading, cls.apply

    def process_weights_after_loading(experts: Any, layer: Any) -> None:
        w13, w2 = layer.w13_weight.data, layer.w2_weight.data
        pack(experts, layer)
        switch.adopt(experts, layer, (w13, w2), native)

    def apply(experts: Any, **tensors: Any) -> None:
        # vLLM's modular kernel passes everything by keyword.
        switch.compute(experts, native, tensors)

    cls.process_weights_after_loading = process_weights_after_loading
    cls.apply = apply


def patch_loader(module: ModuleType, switch: MoeSwitch) -> None:
    """Announce what took effect as soon as a model is loaded."""
    load = module.BaseModelLoader.load_model

    def load_model(loader: Any, *args: Any, **kwargs: Any) -> Any:
        model = load(loader, *args, **kwargs)
        switch.announce()
        return model

    module.BaseModelLoader.load_model = load_model

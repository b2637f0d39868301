"""Where vLLM is looked at: its model runner, its loader, its experts and its all-reduce.

Nothing of a compiled model's inside can be seen from Python, and wrapping its modules would break the compilation.
There the watch sees the logits alone, the profile sees what is around the model, and each says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from enginex import lines
from enginex.afterimport import after_import
from enginex.observe.runner import Observer, StepTimer, patch_runner
from enginex.settings import Settings

if TYPE_CHECKING:
    from enginex.observe.profile import DecodeProfile
    from enginex.observe.watch import NumericWatch

__all__ = ["distinct", "install"]

_RUNNER = "vllm.v1.worker.gpu_model_runner"
_LOADER = "vllm.model_executor.model_loader.base_loader"
_EXPERTS = "vllm.model_executor.layers.fused_moe.routed_experts"
_TIMED = (
    (_EXPERTS, "RoutedExperts", ("forward_modular", "forward_monolithic"), "routed_experts"),
    (
        "vllm.model_executor.layers.fused_moe.router.fused_moe_router",
        "FusedMoERouter",
        ("select_experts",),
        "router",
    ),
    (
        "vllm.distributed.parallel_state",
        "GroupCoordinator",
        ("_all_reduce_out_place",),
        "all_reduce",
    ),
)
"""What is no module of the model and a stage all the same: where it is, its class, its methods, the stage."""
_FEW_IDS = 512


class _Looking:
    """What of one process is looked at. Made when vLLM's runner is imported, when torch is there."""

    def __init__(self, settings: Settings) -> None:
        from enginex.observe.profile import DecodeProfile  # noqa: PLC0415 - as late as torch
        from enginex.observe.watch import NumericWatch  # noqa: PLC0415

        self.watch: NumericWatch | None = None
        self.profile: DecodeProfile | None = None
        self._records = settings.step_records
        self._observers: list[Observer] = []
        if settings.profile:
            sync = _device_sync() if settings.profile_sync else None
            self.profile = DecodeProfile(settings.profile_every, sync)
            self._observers.append(self.profile)
        if settings.watch:
            self.watch = NumericWatch(settings.watch_every)
            self._observers.append(self.watch)
        self.timer = StepTimer(self._observers, _graph)

    def loaded(self, model: Any, config: Any) -> None:
        """A model is loaded: look at its layers, unless it is going to be compiled."""
        from enginex.observe import modules  # noqa: PLC0415 - as late as torch

        compiled = int(getattr(config.compilation_config, "mode", 0) or 0) != 0
        layers = [] if compiled else modules.blocks(model)
        if self.watch is not None:
            self.watch.attach(layers, "logits" if compiled else "layers")
        if self.profile is not None:
            if not compiled:
                self._cover(self.profile, model)
            self.profile.attach("step" if compiled else "stages")
        if self._records is not None and _rank() == 0:
            self._begin_records(Path(self._records))

    def _begin_records(self, path: Path) -> None:
        from enginex.observe.records import StepRecords  # noqa: PLC0415 - starts a thread, in rank 0 alone

        self._records = None
        self._observers.append(StepRecords(path))
        lines.emit(lines.render("steps", {"records": "on", "experts": "first_layer"}))

    def _cover(self, profile: DecodeProfile, model: Any) -> None:
        from enginex.observe import modules  # noqa: PLC0415 - as late as torch

        for path, module in list(model.named_modules()):
            stage = modules.stage_of(path) if path else None
            if stage is not None:
                modules.cover(module, profile.wrap(stage))


def install(settings: Settings) -> None:
    """Arrange that vLLM's modules are looked at once a process imports them."""
    made: list[_Looking] = []

    def looking() -> _Looking:
        if not made:
            made.append(_Looking(settings))
        return made[0]

    after_import(_RUNNER, lambda module: _patch_runner(module, looking()))
    after_import(_LOADER, lambda module: _patch_loader(module, looking()))
    if settings.step_records is not None:
        after_import(_EXPERTS, lambda module: _count_experts(module, looking().timer))
    if settings.profile:
        for name, cls, methods, stage in _TIMED:
            after_import(
                name, partial(_time_all, cls=cls, methods=methods, stage=stage, of=looking)
            )


def _patch_runner(module: ModuleType, looking: _Looking) -> None:
    patch_runner(module, looking.timer)
    if looking.profile is not None:
        _time(module.GPUModelRunner, "_sample", "sampling", looking.profile)


def _patch_loader(module: ModuleType, looking: _Looking) -> None:
    load = module.BaseModelLoader.load_model

    def load_model(loader: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> Any:
        model = load(loader, vllm_config, *args, **kwargs)
        looking.loaded(model, vllm_config)
        return model

    module.BaseModelLoader.load_model = load_model


def _count_experts(module: ModuleType, timer: StepTimer) -> None:
    """Count the distinct experts of a step's first layer, where the choice is handed on.

    Only in memory that the host reads: to count on a device would make it wait.
    """
    from torch.compiler import is_compiling  # noqa: PLC0415 - as late as vLLM imports it

    cls = module.RoutedExperts
    compute = cls.forward_modular

    def forward_modular(experts: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_compiling() and timer.wants_experts:
            ids = kwargs["topk_ids"] if "topk_ids" in kwargs else args[2]
            if ids.device.type == "cpu":
                timer.routed(distinct(ids))
        return compute(experts, *args, **kwargs)

    cls.forward_modular = forward_modular


def distinct(ids: Any) -> int:
    """Count distinct experts, the quicker way for few and for many tokens."""
    if ids.numel() <= _FEW_IDS:
        return len(set(ids.flatten().tolist()))
    return int(ids.unique().numel())


def _time_all(
    module: ModuleType,
    *,
    cls: str,
    methods: tuple[str, ...],
    stage: str,
    of: Callable[[], _Looking],
) -> None:
    profile = of().profile
    if profile is not None:
        for method in methods:
            _time(getattr(module, cls), method, stage, profile)


def _time(cls: type, name: str, stage: str, profile: DecodeProfile) -> None:
    """Time a method of a class as a stage."""
    from torch.compiler import is_compiling  # noqa: PLC0415 - as late as vLLM imports it

    inner = getattr(cls, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return inner(*args, **kwargs)
        with profile.stage(stage):
            return inner(*args, **kwargs)

    setattr(cls, name, timed)


def _graph() -> str:
    """Say as what kind of graph the present step runs."""
    from vllm import forward_context  # noqa: PLC0415 - vLLM is there when a step runs

    if not forward_context.is_forward_context_available():
        return "none"
    mode = forward_context.get_forward_context().cudagraph_runtime_mode
    return str(getattr(mode, "name", mode)).lower()


def _rank() -> int:
    from vllm.distributed import parallel_state  # noqa: PLC0415 - vLLM is there when a model is loaded

    return int(parallel_state.get_world_group().rank)


def _device_sync() -> Callable[[], None] | None:
    import torch  # noqa: PLC0415 - as late as vLLM imports it

    return torch.accelerator.synchronize if torch.accelerator.is_available() else None

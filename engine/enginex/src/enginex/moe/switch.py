"""Who computes a step's routed experts: the variant that was asked for, or the engine.

The engine's own path is taken above the limit of tokens and wherever the variant cannot run: an activation that
the contract does not know, experts spread over ranks (an expert map), weights that another library packed, a
kernel that was not built, or a result that disagrees with the engine's. The marker line says which, once a model
is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import torch

from enginex import lines
from enginex.moe.layers import Layer, Native, Runner, disagreement, runner, unsupported
from enginex.moe.names import AUTO, NATIVE, TORCH_VARIANTS
from enginex.moe.policy import Key, Policy, cpu_device
from enginex.moe.steps import StepCounter
from enginex.native.library import NotBuilt
from enginex.pages import collapse
from enginex.settings import Settings

__all__ = ["MoeSwitch"]

_AGREES = 0.05
"""Largest relative distance (in the 2-norm) between the variant's and the engine's result at load time. Rounding
in bf16 makes about 0.005; a wrong layout or a wrong activation makes about 1."""


class MoeSwitch:
    """Sends the steps of few tokens to a variant, in every layer of routed experts.

    Args:
        settings: What the environment asks for.
        policy: What the variant ``auto`` chooses from.
        write: Where the marker lines go.
    """

    def __init__(
        self,
        settings: Settings,
        policy: Policy | None = None,
        write: Callable[[str], None] = lines.emit,
    ) -> None:
        self.steps = StepCounter(write=write)
        self._settings = settings
        self._policy = policy
        self._write = write
        self._loaded: list[Layer] = []
        self._runners: dict[int, dict[int, tuple[str, Runner]]] = {}
        self._counting: int | None = None
        self._announced = False
        self._serving: Callable[[], bool] = _serving()

    def adopt(
        self, experts: Any, module: Any, weights: tuple[torch.Tensor, torch.Tensor], native: Native
    ) -> None:
        """Take note of a layer whose weights have just been packed."""
        if self._counting is None:
            self._counting = id(experts)
        layer = Layer.of(experts, module, weights, native)
        names = set((self._table(layer) or {}).values())
        self._loaded.append(layer if _needs_rows(layer, names) else layer.without_rows())
        self._announced = False

    def compute(self, experts: Any, native: Native, tensors: Mapping[str, Any]) -> None:
        """Compute one layer of one step into ``tensors["output"]``."""
        if not self._announced:
            self.announce()
        tokens = tensors["hidden_states"].shape[0]
        key = id(experts)
        name, run = NATIVE, None
        runners = self._runners.get(key)
        if runners is not None and tensors["expert_map"] is None:
            name, run = runners.get(tokens, (NATIVE, None))
        if key == self._counting and self._serving():
            self.steps.add(name, tokens)
        if run is None:
            native(experts, **tensors)
        else:
            run(tensors)

    def announce(self) -> None:
        """Settle whether the variant takes effect, print the marker, and free what is not needed."""
        if self._announced:
            return
        self._announced = True
        layers, self._loaded = self._loaded, []
        reason = self._why_not(layers)
        if reason is None and self._settings.moe_impl != NATIVE:
            for layer in layers:
                self._runners[id(layer.experts)] = self._runners_of(layer)
        huge = None
        if self._settings.moe_huge_pages:
            huge = sum(collapse(w) for layer in layers for w in layer.resident())
        self._write(lines.render("moe", self._marker(layers, reason, huge)))
        self.steps.start()

    def _table(self, layer: Layer) -> dict[int, str] | None:
        """Say for each number of tokens what is to run, native left out; None when the policy does not know."""
        most = self._settings.moe_max
        if self._settings.moe_impl != AUTO:
            name = self._settings.moe_impl
            return {} if name == NATIVE else dict.fromkeys(range(1, most + 1), name)
        table = None if self._policy is None else self._policy.table(_key(layer), most)
        return None if table is None else {t: name for t, name in table.items() if name != NATIVE}

    def _runners_of(self, layer: Layer) -> dict[int, tuple[str, Runner]]:
        table = self._table(layer) or {}
        made = {name: runner(name, layer) for name in set(table.values())}
        return {tokens: (name, made[name]) for tokens, name in table.items()}

    def _why_not(self, layers: list[Layer]) -> str | None:
        """Say in one word why the variant cannot run, or None when it can."""
        if not layers:
            return "no_unquantized_experts"
        if self._settings.moe_impl == NATIVE:
            return None
        if self._settings.moe_max == 0:
            return "max_tokens_is_0"
        for layer in layers:
            reason = unsupported(layer)
            if reason is None and self._table(layer) is None:
                reason = f"policy_has_no_such_{self._lacks(layer)[0]}"
            if reason is not None:
                return reason
        try:
            for name in sorted(set((self._table(layers[0]) or {}).values())):
                distance = disagreement(runner(name, layers[0]), layers[0], self._settings.moe_max)
                if not distance <= _AGREES:  # a NaN is no agreement
                    return f"{name}_disagrees_by_{distance:.3g}"
        except NotBuilt:
            return "compiled_kernel_not_built"
        return None

    def _policy_words(self, layers: list[Layer]) -> dict[str, str]:
        """Say what the policy would have to hold, and what it does, where it lacks an entry."""
        lacking = next((layer for layer in layers if self._table(layer) is None), None)
        if lacking is None:
            return {}
        _, here, measured = self._lacks(lacking)
        return {"wants": here, "has": measured}

    def _lacks(self, layer: Layer) -> tuple[str, str, str]:
        """Say what of a layer the policy does not know, what it is here, and what was measured."""
        found = None if self._policy is None else self._policy.lacks(_key(layer))
        return found or ("policy", "one", "nothing")

    def _marker(
        self, layers: list[Layer], reason: str | None, huge: int | None
    ) -> dict[str, object]:
        """List the fields of the marker line."""
        wanted = self._settings.moe_impl
        fields: dict[str, object] = {
            "variant": wanted,
            "max_tokens": self._settings.moe_max,
            "effective": wanted if reason is None else NATIVE,
            "reason": reason,
            "layers": len(layers),
        }
        if layers:
            first = layers[0]
            kept = sum(layer.kept_bytes() for layer in layers) if reason is None else 0
            fields |= {
                "dtype": lines.short_dtype(first.dtype),
                "experts": first.experts_count,
                "topk": first.topk,
                "hidden": first.width,
                "inter": first.inner,
                "threads": torch.get_num_threads(),
                "uses": _ranges(self._table(first) or {})
                if wanted == AUTO and reason is None
                else None,
                **self._policy_words(layers),
                "kept_mib": round(kept / 2**20),
                "huge_mib": None if huge is None else round(huge / 2**20),
                "rank": first.rank,
            }
        return fields | {"pid": os.getpid()}


def _key(layer: Layer) -> Key:
    """What a measurement must have been made of to be good for a layer."""
    return Key(
        device=cpu_device(),
        threads=torch.get_num_threads(),
        dtype=lines.short_dtype(layer.dtype),
        experts=layer.experts_count,
        hidden=layer.width,
        inter=layer.inner,
        topk=layer.topk,
    )


def _needs_rows(layer: Layer, names: set[str]) -> bool:
    """Whether any of the variants reads the weights as they were loaded."""
    return any(name in TORCH_VARIANTS or not layer.readable_packed() for name in names)


def _ranges(table: Mapping[int, str]) -> str:
    """Render {1: a, 2: a, 4: b} as ``1-2:a,4:b``."""
    parts = []
    runs = groupby(enumerate(sorted(table)), lambda item: (item[1] - item[0], table[item[1]]))
    for (_, name), run in runs:
        tokens = [t for _, t in run]
        parts.append(
            f"{tokens[0]}:{name}" if len(tokens) == 1 else f"{tokens[0]}-{tokens[-1]}:{name}"
        )
    return ",".join(parts) or "nothing"


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

"""What one layer of a model keeps for a sequence: keys and values, a latent vector, a state.

The formulas follow vLLM's cache specifications (``vllm/v1/kv_cache_interface.py`` and
``model_executor/layers/mamba/mamba_utils.py``).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction

__all__ = [
    "Attention",
    "AttentionKind",
    "Layer",
    "State",
    "StateKind",
    "state_bytes",
    "token_bytes",
]


class AttentionKind(enum.StrEnum):
    """Which tokens a layer attends to, and in what form it keeps them."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    MLA = "mla"


class StateKind(enum.StrEnum):
    """The kind of a layer that folds its past into a state of fixed size."""

    GDN = "gated delta net"
    MAMBA1 = "mamba 1"
    MAMBA2 = "mamba 2"


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one layer.

    Attributes:
        kind: Which tokens it attends to.
        kv_heads: Heads of keys and values over all ranks; 1 for MLA.
        key_dim: Elements of a key a head; for MLA the latent and the rotary part together.
        value_dim: Elements of a value a head; 0 for MLA, which keeps one vector for both.
        window: Tokens of a sliding window or a chunk.
    """

    kind: AttentionKind
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None

    def local_heads(self, tp: int) -> int:
        """Heads of keys and values on one rank; where there are more ranks than heads, each has one."""
        return 1 if self.kind is AttentionKind.MLA else max(1, self.kv_heads // tp)


@dataclass(frozen=True, slots=True)
class State:
    """The recurrent state of one layer.

    Attributes:
        kind: Which family the layer is of.
        conv_channels: Channels of the short convolution over all ranks.
        conv_kernel: Width of the convolution; one column less is kept.
        heads: Heads of the recurrent state; for Mamba 1 the channels.
        head_shape: Elements of the recurrent state a head.
        groups: Groups of Mamba 2's B and C; ranks beyond them hold copies.
        group_channels: Channels of the convolution that belong to one group.
    """

    kind: StateKind
    conv_channels: int
    conv_kernel: int
    heads: int
    head_shape: int
    groups: int = 0
    group_channels: int = 0

    def conv_elements(self, tp: int, speculative: int = 0) -> int:
        """Elements of the kept part of the convolution on one rank."""
        channels = self.conv_channels
        if self.groups and self.groups % tp:
            channels += (tp - self.groups) * self.group_channels
        return channels // tp * (self.conv_kernel - 1 + speculative)

    def recurrent_elements(self, tp: int) -> int:
        """Elements of the recurrent state on one rank."""
        return self.heads // tp * self.head_shape


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer keeps. A layer may have both parts, or neither.

    Attributes:
        attention: Its attention, where it has one.
        state: Its recurrent state, where it has one.
    """

    attention: Attention | None = None
    state: State | None = None


_KV_BITS: dict[str, tuple[Fraction, int]] = {
    # name of --kv-cache-dtype: bits of an element, bytes of scales a head and token for K and for V
    "float16": (Fraction(16), 0), "half": (Fraction(16), 0), "bfloat16": (Fraction(16), 0),
    "float32": (Fraction(32), 0), "float": (Fraction(32), 0),
    "fp8": (Fraction(8), 0), "fp8_e4m3": (Fraction(8), 0), "fp8_e5m2": (Fraction(8), 0),
    "fp8_inc": (Fraction(8), 0), "int8": (Fraction(8), 0),
    "int8_per_token_head": (Fraction(8), 4), "fp8_per_token_head": (Fraction(8), 4),
    "int4_per_token_head": (Fraction(4), 4), "nvfp4": (Fraction(9, 2), 0),
}  # fmt: skip
_LEAST_KV_BITS = Fraction(3)
_FP8_DS_MLA = 656  # bytes a token: 512 values of one byte, 4 scales, 64 rotary values of two bytes
DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "half": 2, "float32": 4, "float": 4}


def token_bytes(attention: Attention, kv_dtype: str, model_dtype: str, tp: int) -> Fraction:
    """Bytes that one token takes in the cache of one layer on one rank.

    Args:
        attention: The layer's attention.
        kv_dtype: ``--kv-cache-dtype``; ``auto`` means the model's type. A type that is not known is
            taken as the smallest that exists, 3 bits, so that a lower bound stays one.
        model_dtype: The type that the model is loaded in.
        tp: Tensor-parallel ranks.
    """
    name = model_dtype if kv_dtype == "auto" else kv_dtype
    if attention.kind is AttentionKind.MLA and name == "fp8_ds_mla":
        return Fraction(_FP8_DS_MLA)
    bits, scales = _KV_BITS.get(name, (_LEAST_KV_BITS, 0))
    heads = attention.local_heads(tp)
    parts = 1 if attention.value_dim == 0 else 2
    values = Fraction(heads * (attention.key_dim + attention.value_dim)) * bits / 8
    return values + heads * parts * scales


def state_bytes(
    state: State, *, model_dtype: str, ssm_dtype: str, tp: int, speculative: int
) -> int:
    """Bytes of one copy of a layer's state on one rank.

    Args:
        state: The layer's state.
        model_dtype: The type of the convolution's part.
        ssm_dtype: The type of the recurrent part; ``auto`` means the model's type.
        tp: Tensor-parallel ranks.
        speculative: Speculated tokens, for which the convolution keeps a column each.
    """
    recurrent = model_dtype if ssm_dtype == "auto" else ssm_dtype
    conv = state.conv_elements(tp, speculative) * DTYPE_BYTES.get(model_dtype, 2)
    return conv + state.recurrent_elements(tp) * DTYPE_BYTES.get(recurrent, 2)

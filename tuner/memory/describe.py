"""Which layer of a model is of which kind: the many ways in which configs say it.

A kind that is not understood counts as a layer that keeps nothing, and is noted: then the lower
bound is too low, never too high.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.errors import ModelUnreadable
from tuner.memory.layers import Attention, AttentionKind, Layer, State, StateKind

__all__ = ["Fields", "describe_layers"]

_MOST_LAYERS = 10_000
_MOST = 2**40

_FULL, _SLIDING, _CHUNKED, _LINEAR, _MAMBA, _BOTH, _NONE = (
    "full", "sliding", "chunked", "linear", "mamba", "both", "none",
)  # fmt: skip
_WORDS = {
    "full_attention": _FULL, "attention": _FULL, "full": _FULL, "global": _FULL, "attn": _FULL,
    "sliding_attention": _SLIDING, "local": _SLIDING, "sliding_window": _SLIDING,
    "chunked_attention": _CHUNKED, "linear_attention": _LINEAR, "gated_deltanet": _LINEAR,
    "mamba": _MAMBA, "mamba2": _MAMBA, "hybrid": _BOTH, "mlp": _NONE, "moe": _NONE, "ffn": _NONE,
}  # fmt: skip
_PATTERN_MARKS = {"M": _MAMBA, "*": _FULL, "-": _NONE, "E": _NONE}  # Nemotron-H
_MLA_TYPES = (
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite",
    "longcat_flash", "pangu_ultra_moe", "minicpm3",
)  # fmt: skip


class Fields:
    """Looks values up in a config, under any of several names.

    Args:
        data: The text model's part of the config.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def whole(self, *names: str, default: int | None = None) -> int:
        """A whole number that is not negative.

        Raises:
            ModelUnreadable: When it is missing without a default, or no such number.
        """
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if type(value) is not int or not 0 <= value < _MOST:
                raise ModelUnreadable(f"{name} is {value!r}, which is no sensible number")
            return value
        if default is None:
            raise ModelUnreadable(f"{names[0]} is missing")
        return default

    def has(self, *names: str) -> bool:
        """Whether all of these are given."""
        return all(self.data.get(name) is not None for name in names)


def describe_layers(
    fields: Fields, *, mla: bool = True
) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    """What each layer keeps, and notes on what was not understood.

    Args:
        fields: The text model's part of the config.
        mla: Whether latent attention is used where the model has it.

    Raises:
        ModelUnreadable: When a number that is needed is missing or senseless.
    """
    count = fields.whole("num_hidden_layers", "n_layer", "num_layers")
    if not 0 < count <= _MOST_LAYERS:
        raise ModelUnreadable(f"num_hidden_layers is {count}, which is no sensible number")
    notes: list[str] = []
    kinds = _kinds(fields, count)
    shared = fields.whole("num_kv_shared_layers", default=0)
    layers = [
        _layer(kind, fields, notes, mla=mla, keeps=index < count - shared)
        for index, kind in enumerate(kinds)
    ]
    return tuple(layers), tuple(dict.fromkeys(notes))


def _kinds(fields: Fields, count: int) -> list[str]:
    data = fields.data
    for name in ("layer_types", "layers_block_type"):
        listed = data.get(name)
        if isinstance(listed, list):
            if len(listed) < count:
                raise ModelUnreadable(f"{name} names {len(listed)} of {count} layers")
            return [_WORDS.get(str(word), str(word)) for word in listed[:count]]
    pattern = data.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        if len(pattern) < count:
            raise ModelUnreadable(f"hybrid_override_pattern names {len(pattern)} of {count} layers")
        return [_PATTERN_MARKS.get(mark, mark) for mark in pattern[:count]]
    return [_by_rule(fields, index) for index in range(count)]


def _by_rule(fields: Fields, index: int) -> str:
    """The kind of a layer in a config that has a rule instead of a list."""
    data, model = fields.data, str(fields.data.get("model_type"))
    if fields.has("full_attention_interval"):
        every = max(1, fields.whole("full_attention_interval"))
        return _FULL if (index + 1) % every == 0 else _LINEAR
    if fields.has("attn_layer_period"):
        period = max(1, fields.whole("attn_layer_period"))
        at = fields.whole("attn_layer_offset", default=0)
        return _FULL if index % period == at else _MAMBA
    if isinstance(data.get("attn_layer_indices"), list):
        return _FULL if index in data["attn_layer_indices"] else _MAMBA
    if model == "falcon_h1":
        return _BOTH
    if model in ("mamba", "mamba2", "falcon_mamba"):
        return _MAMBA
    return _local_or_full(fields, index, model)


def _local_or_full(fields: Fields, index: int, model: str) -> str:
    window = fields.data.get("sliding_window")
    if not window or fields.data.get("use_sliding_window") is False:
        return _FULL
    if fields.has("sliding_window_pattern"):
        every = max(1, fields.whole("sliding_window_pattern"))
        return _FULL if (index + 1) % every == 0 else _SLIDING
    if model in ("gemma2", "gpt_oss"):
        return _SLIDING if index % 2 == 0 else _FULL
    if fields.has("max_window_layers"):
        return _SLIDING if index >= fields.whole("max_window_layers") else _FULL
    return _SLIDING


def _layer(kind: str, fields: Fields, notes: list[str], *, mla: bool, keeps: bool) -> Layer:
    attention = state = None
    if kind in (_FULL, _SLIDING, _CHUNKED, _BOTH) and keeps:
        attention = _attention(kind, fields, mla=mla)
    if kind == _LINEAR:
        state = _gated_delta_net(fields)
        if state is None:
            notes.append("linear attention of a kind that is not known: its states are not counted")
    if kind in (_MAMBA, _BOTH):
        state = _mamba(fields)
        if state is None:
            notes.append("Mamba layers without known sizes: their states are not counted")
    if kind not in (_FULL, _SLIDING, _CHUNKED, _LINEAR, _MAMBA, _BOTH, _NONE):
        notes.append(f"layers of kind {kind!r} are not known: what they keep is not counted")
    return Layer(attention, state)


def _attention(kind: str, fields: Fields, *, mla: bool) -> Attention:
    latent = fields.data.get("kv_lora_rank")
    model = str(fields.data.get("model_type"))
    if mla and latent and (model in _MLA_TYPES or fields.has("qk_rope_head_dim")):
        width = fields.whole("kv_lora_rank") + fields.whole("qk_rope_head_dim", default=0)
        return Attention(AttentionKind.MLA, 1, width, 0)
    heads = fields.whole("num_attention_heads", "n_head")
    shared = fields.whole("num_key_value_heads", "num_kv_heads", "n_head_kv", default=heads)
    key = _head_dim(fields, heads)
    if latent:  # latent attention that is not used: keys and values of full width
        key = fields.whole("qk_nope_head_dim") + fields.whole("qk_rope_head_dim")
    value = key if latent else fields.whole("v_head_dim", default=key) or key
    if kind == _FULL and fields.has("global_head_dim"):  # Gemma 4
        key = value = fields.whole("global_head_dim")
        shared = fields.whole("num_global_key_value_heads", default=shared)
    if kind == _SLIDING:
        window = fields.whole("sliding_window")
        # Cohere's window is given without the token itself.
        window += 1 if model in ("cohere2", "cohere2_vision") else 0
        return Attention(AttentionKind.SLIDING, shared, key, value, window)
    if kind == _CHUNKED:
        chunk = fields.whole("attention_chunk_size")
        return Attention(AttentionKind.CHUNKED, shared, key, value, chunk)
    return Attention(AttentionKind.FULL, shared, key, value)


def _head_dim(fields: Fields, heads: int) -> int:
    given = fields.whole("head_dim", "attention_head_dim", default=0)
    return given or fields.whole("hidden_size", "n_embd", "d_model") // max(1, heads)


def _gated_delta_net(fields: Fields) -> State | None:
    """``conv (2*nk*dk + nv*dv) x (K-1)`` and ``nv x dv x dk``."""
    if not fields.has("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim"):
        return None
    key_heads, value_heads = (
        fields.whole("linear_num_key_heads"),
        fields.whole("linear_num_value_heads"),
    )
    key_dim = fields.whole("linear_key_head_dim")
    value_dim = fields.whole("linear_value_head_dim", default=key_dim)
    return State(
        kind=StateKind.GDN,
        conv_channels=2 * key_heads * key_dim + value_heads * value_dim,
        conv_kernel=fields.whole("linear_conv_kernel_dim", default=4),
        heads=value_heads,
        head_shape=value_dim * key_dim,
    )


def _mamba(fields: Fields) -> State | None:
    heads = fields.whole(
        "mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads", default=0
    )
    states = fields.whole("mamba_d_state", "ssm_state_size", "state_size", default=0)
    kernel = fields.whole("mamba_d_conv", "conv_kernel", default=4)
    if not states:
        return None
    if not heads:  # Mamba 1: one channel is one head
        channels = fields.whole("mamba_intermediate_size", "intermediate_size", default=0)
        if fields.has("mamba_expand"):
            channels = fields.whole("mamba_expand") * fields.whole("hidden_size")
        return State(StateKind.MAMBA1, channels, kernel, channels, states) if channels else None
    width = fields.whole("mamba_d_head", "mamba_head_dim", "mamba_headdim", "head_dim", default=0)
    groups = max(1, fields.whole("mamba_n_groups", "n_groups", "mamba_ngroups", default=1))
    if not width:
        return None
    return State(
        kind=StateKind.MAMBA2,
        conv_channels=heads * width + 2 * groups * states,
        conv_kernel=kernel,
        heads=heads,
        head_shape=width * states,
        groups=groups,
        group_channels=2 * states,
    )

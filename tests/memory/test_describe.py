from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.checkpoints import config
from tuner.errors import ModelUnreadable
from tuner.memory.describe import Fields, describe_layers
from tuner.memory.layers import AttentionKind, Layer, StateKind


def described(**data: Any) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    base = {"num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 512}
    return describe_layers(Fields({**base, **data}))


def marks(layers: tuple[Layer, ...]) -> str:
    """One letter a layer: F S C L for attention, G M for states, B for both, - for neither."""
    letters = {
        AttentionKind.FULL: "F", AttentionKind.SLIDING: "S", AttentionKind.CHUNKED: "C",
        AttentionKind.MLA: "L",
    }  # fmt: skip
    out = ""
    for layer in layers:
        if layer.attention and layer.state:
            out += "B"
        elif layer.attention:
            out += letters[layer.attention.kind]
        elif layer.state:
            out += "G" if layer.state.kind is StateKind.GDN else "M"
        else:
            out += "-"
    return out


LINEAR = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}  # fmt: skip
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 32, "mamba_n_groups": 2}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, "FFFFFF"),
        ({"sliding_window": None}, "FFFFFF"),
        ({"sliding_window": 64}, "SSSSSS"),
        ({"sliding_window": 64, "use_sliding_window": False}, "FFFFFF"),
        ({"sliding_window": 64, "max_window_layers": 4}, "FFFFSS"),
        ({"sliding_window": 64, "sliding_window_pattern": 3}, "SSFSSF"),
        ({"sliding_window": 64, "model_type": "gemma2"}, "SFSFSF"),
        (
            {"sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * 3},
            "SFSFSF",
        ),
        ({"attention_chunk_size": 64, "layer_types": ["chunked_attention"] * 6}, "CCCCCC"),
        ({"full_attention_interval": 3, **LINEAR}, "GGFGGF"),
        ({"layer_types": ["linear_attention"] * 5 + ["full_attention"], **LINEAR}, "GGGGGF"),
        ({"attn_layer_period": 3, "attn_layer_offset": 1, **MAMBA}, "MFMMFM"),
        ({"attn_layer_indices": [2], **MAMBA}, "MMFMMM"),
        ({"layers_block_type": ["mamba", "hybrid"] * 3, **MAMBA}, "MBMBMB"),
        ({"hybrid_override_pattern": "M*-M*-", **MAMBA}, "MF-MF-"),
        ({"model_type": "falcon_h1", **MAMBA}, "BBBBBB"),
        ({"model_type": "mamba2", **MAMBA}, "MMMMMM"),
        ({"num_kv_shared_layers": 2}, "FFFF--"),
        ({"kv_lora_rank": 64, "qk_rope_head_dim": 8}, "LLLLLL"),
    ],
)
def test_kinds_of_layers(data: dict[str, Any], expected: str) -> None:
    layers, notes = described(num_hidden_layers=6, **data)
    assert marks(layers) == expected
    assert notes == ()


def test_heads_and_widths() -> None:
    attention = described(num_hidden_layers=1)[0][0].attention
    assert attention is not None
    assert (attention.kv_heads, attention.key_dim, attention.value_dim) == (2, 64, 64)
    apart = described(num_hidden_layers=1, head_dim=192, v_head_dim=128)[0][0].attention
    assert apart is not None
    assert (apart.key_dim, apart.value_dim) == (192, 128)


def test_latent_attention_used_and_not_used() -> None:
    fields = Fields(config("deepseek_tiny"))
    latent = describe_layers(fields)[0][0].attention
    assert latent is not None
    assert (latent.kind, latent.key_dim, latent.value_dim) == (AttentionKind.MLA, 576, 0)
    plain = describe_layers(fields, mla=False)[0][0].attention
    assert plain is not None
    assert (plain.kind, plain.kv_heads, plain.key_dim) == (AttentionKind.FULL, 4, 192)


def test_windows() -> None:
    cohere = described(num_hidden_layers=1, sliding_window=64, model_type="cohere2")[0][0]
    assert cohere.attention is not None
    assert cohere.attention.window == 65
    gemma4 = {
        "sliding_window": 64, "head_dim": 32, "global_head_dim": 128, "num_hidden_layers": 2,
        "num_global_key_value_heads": 1, "layer_types": ["sliding_attention", "full_attention"],
    }  # fmt: skip
    local, wide = (layer.attention for layer in described(**gemma4)[0])
    assert local is not None
    assert wide is not None
    assert (local.kv_heads, local.key_dim) == (2, 32)
    assert (wide.kv_heads, wide.key_dim, wide.window) == (1, 128, None)


def test_the_families_of_the_fixtures() -> None:
    for name, expected in {
        "nemotron_h": "M-MF-M-M",
        "gemma3_tiny": "SSSSSF",
        "mistral_tiny": "SSSSSS",
        "qwen3_next_tiny": "GGGF",
        "deepseek_tiny": "LLLLLL",
    }.items():
        assert marks(describe_layers(Fields(config(name)))[0]) == expected, name
    jamba = Counter(marks(describe_layers(Fields(config("jamba")))[0]))
    assert jamba == {"M": 28, "F": 4}
    text = config("qwen36_35b_a3b")["text_config"]
    assert Counter(marks(describe_layers(Fields(text))[0])) == {"G": 30, "F": 10}


def test_what_is_not_understood_is_noted_and_counts_as_nothing() -> None:
    layers, notes = described(
        num_hidden_layers=3, layer_types=["full_attention", "holographic", "linear_attention"]
    )
    assert marks(layers) == "F--"
    assert len(notes) == 2
    assert "'holographic'" in notes[0]
    assert "linear attention" in notes[1]
    assert "Mamba" in described(num_hidden_layers=1, layer_types=["mamba"])[1][0]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": -1},
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": "6"},
        {"num_hidden_layers": True},
        {"num_hidden_layers": 6, "layer_types": ["full_attention"]},
        {"num_hidden_layers": 6, "hybrid_override_pattern": "M*"},
        {"num_hidden_layers": 1, "num_attention_heads": 2.5},
    ],
)
def test_senseless_configs_are_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ModelUnreadable):
        described(**data)


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 300), st.floats(), st.text(max_size=5),
    st.lists(st.text(max_size=5), max_size=5),
)  # fmt: skip
_NAMES = st.sampled_from([
    "layer_types", "sliding_window", "sliding_window_pattern", "full_attention_interval", "head_dim",
    "attn_layer_period", "attn_layer_indices", "hybrid_override_pattern", "kv_lora_rank",
    "qk_rope_head_dim", "mamba_n_heads", "mamba_d_state", "linear_num_key_heads", "model_type",
    "num_key_value_heads", "num_kv_shared_layers", "mamba_expand", "global_head_dim",
])  # fmt: skip


@given(st.dictionaries(_NAMES, _VALUES))
def test_any_config_is_described_or_refused(data: dict[str, Any]) -> None:
    try:
        layers, _ = described(num_hidden_layers=4, **data)
    except ModelUnreadable:
        return
    assert len(layers) == 4

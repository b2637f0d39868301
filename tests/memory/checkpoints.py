"""Checkpoints made of nothing but heads: the tensors that a model of a given config has."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuner.memory.config import parse_config
from tuner.memory.headers import BITS, Tensor
from tuner.memory.model import ModelFacts, make_facts

MODELS = Path(__file__).parent.parent / "data" / "models"

Named = tuple[str, tuple[int, ...]]


def config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MODELS / f"{name}.json").read_text())
    return found


def tensors(cfg: dict[str, Any], dtype: str = "BF16") -> tuple[Tensor, ...]:
    """The tensors of a checkpoint of this config, as Hugging Face names them."""
    made = [
        Tensor(name, dtype, shape, math.prod(shape) * BITS[dtype] // 8)
        for name, shape in _model(cfg)
    ]
    return tuple(sorted(made, key=lambda tensor: tensor.name))


def facts(name: str, dtype: str = "BF16", **changes: Any) -> ModelFacts:
    """The facts of a model of the fixtures, some of its config changed."""
    cfg = {**config(name), **changes}
    return make_facts(parse_config(cfg), tensors(cfg, dtype))


def write(file: Path, content: tuple[Tensor, ...]) -> None:
    """A safetensors file whose tensors are a hole: only the head takes room on the disk."""
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in content:
        head[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.size],
        }
        at += tensor.size
    raw = json.dumps(head).encode()
    with file.open("wb") as out:
        out.write(len(raw).to_bytes(8, "little") + raw)
        out.truncate(8 + len(raw) + at)


def _model(cfg: dict[str, Any]) -> Iterator[Named]:
    text = cfg.get("text_config", cfg)
    nested = text is not cfg
    base = "model.language_model" if nested else "model"
    hidden, vocab = text["hidden_size"], text["vocab_size"]
    yield f"{base}.embed_tokens.weight", (vocab, hidden)
    yield f"{base}.norm.weight", (hidden,)
    if not cfg.get("tie_word_embeddings"):
        yield "lm_head.weight", (vocab, hidden)
    for layer in range(text["num_hidden_layers"]):
        yield from _layer(f"{base}.layers.{layer}", text, layer, fused=nested)
    if text.get("mtp_num_hidden_layers"):
        yield "mtp.fc.weight", (hidden, 2 * hidden)
        for norm in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
            yield f"mtp.{norm}.weight", (hidden,)
        yield from _layer("mtp.layers.0", text, 3, fused=nested)
    if "vision_config" in cfg:
        yield from _vision(cfg["vision_config"])


def _layer(at: str, text: dict[str, Any], layer: int, *, fused: bool) -> Iterator[Named]:
    hidden = text["hidden_size"]
    yield f"{at}.input_layernorm.weight", (hidden,)
    yield f"{at}.post_attention_layernorm.weight", (hidden,)
    if text["model_type"].startswith("gemma"):
        yield f"{at}.pre_feedforward_layernorm.weight", (hidden,)
        yield f"{at}.post_feedforward_layernorm.weight", (hidden,)
    every = text.get("full_attention_interval")
    kinds = text.get("layer_types", [])
    linear = kinds[layer] == "linear_attention" if kinds else bool(every and (layer + 1) % every)
    if linear:
        yield from _gated_delta_net(f"{at}.linear_attn", text, fused=fused)
    elif "kv_lora_rank" in text:
        yield from _latent(f"{at}.self_attn", text)
    else:
        yield from _attention(f"{at}.self_attn", text)
    yield from _mlp(at, text, layer, fused=fused)


def _attention(at: str, text: dict[str, Any]) -> Iterator[Named]:
    hidden, heads, width = text["hidden_size"], text["num_attention_heads"], text["head_dim"]
    kv = text["num_key_value_heads"] * width
    gated = 2 if text["model_type"].startswith(("qwen3_next", "qwen3_5")) else 1
    yield f"{at}.q_proj.weight", (gated * heads * width, hidden)
    yield f"{at}.k_proj.weight", (kv, hidden)
    yield f"{at}.v_proj.weight", (kv, hidden)
    yield f"{at}.o_proj.weight", (hidden, heads * width)
    if text["model_type"].startswith(("qwen3", "gemma3")):
        yield f"{at}.q_norm.weight", (width,)
        yield f"{at}.k_norm.weight", (width,)


def _latent(at: str, text: dict[str, Any]) -> Iterator[Named]:
    hidden, heads = text["hidden_size"], text["num_attention_heads"]
    nope, rope, value = text["qk_nope_head_dim"], text["qk_rope_head_dim"], text["v_head_dim"]
    rank = text["kv_lora_rank"]
    yield f"{at}.q_proj.weight", (heads * (nope + rope), hidden)
    yield f"{at}.kv_a_proj_with_mqa.weight", (rank + rope, hidden)
    yield f"{at}.kv_a_layernorm.weight", (rank,)
    yield f"{at}.kv_b_proj.weight", (heads * (nope + value), rank)
    yield f"{at}.o_proj.weight", (hidden, heads * value)


def _gated_delta_net(at: str, text: dict[str, Any], *, fused: bool) -> Iterator[Named]:
    hidden = text["hidden_size"]
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    heads = text["linear_num_value_heads"]
    values = heads * text["linear_value_head_dim"]
    if fused:  # Qwen3.5 and later keep the parts apart
        yield f"{at}.in_proj_qkv.weight", (2 * keys + values, hidden)
        yield f"{at}.in_proj_z.weight", (values, hidden)
        yield f"{at}.in_proj_a.weight", (heads, hidden)
        yield f"{at}.in_proj_b.weight", (heads, hidden)
    else:
        yield f"{at}.in_proj_qkvz.weight", (2 * keys + 2 * values, hidden)
        yield f"{at}.in_proj_ba.weight", (2 * heads, hidden)
    yield f"{at}.conv1d.weight", (2 * keys + values, 1, text["linear_conv_kernel_dim"])
    yield f"{at}.A_log", (heads,)
    yield f"{at}.dt_bias", (heads,)
    yield f"{at}.norm.weight", (text["linear_value_head_dim"],)
    yield f"{at}.out_proj.weight", (hidden, values)


def _mlp(at: str, text: dict[str, Any], layer: int, *, fused: bool) -> Iterator[Named]:
    hidden = text["hidden_size"]
    if "num_local_experts" in text:
        block = f"{at}.block_sparse_moe"
        yield f"{block}.gate.weight", (text["num_local_experts"], hidden)
        for expert in range(text["num_local_experts"]):
            wide = text["intermediate_size"]
            yield f"{block}.experts.{expert}.w1.weight", (wide, hidden)
            yield f"{block}.experts.{expert}.w2.weight", (hidden, wide)
            yield f"{block}.experts.{expert}.w3.weight", (wide, hidden)
        return
    experts = text.get("num_experts") or text.get("n_routed_experts")
    if not experts or layer < text.get("first_k_dense_replace", 0):
        yield from _gated(f"{at}.mlp", hidden, text["intermediate_size"])
        return
    wide = text["moe_intermediate_size"]
    yield f"{at}.mlp.gate.weight", (experts, hidden)
    if fused:
        yield f"{at}.mlp.experts.gate_up_proj", (experts, 2 * wide, hidden)
        yield f"{at}.mlp.experts.down_proj", (experts, hidden, wide)
    else:
        for expert in range(experts):
            yield from _gated(f"{at}.mlp.experts.{expert}", hidden, wide)
    if "shared_expert_intermediate_size" in text:
        yield from _gated(
            f"{at}.mlp.shared_expert", hidden, text["shared_expert_intermediate_size"]
        )
        yield f"{at}.mlp.shared_expert_gate.weight", (1, hidden)
    if "n_shared_experts" in text:
        yield from _gated(f"{at}.mlp.shared_experts", hidden, wide * text["n_shared_experts"])


def _gated(at: str, hidden: int, wide: int) -> Iterator[Named]:
    yield f"{at}.gate_proj.weight", (wide, hidden)
    yield f"{at}.up_proj.weight", (wide, hidden)
    yield f"{at}.down_proj.weight", (hidden, wide)


def _vision(vision: dict[str, Any]) -> Iterator[Named]:
    width, wide = vision["hidden_size"], vision["intermediate_size"]
    patch, time = vision["patch_size"], vision["temporal_patch_size"]
    merged = width * vision["spatial_merge_size"] ** 2
    base = "model.visual"
    yield f"{base}.patch_embed.proj.weight", (width, 3, time, patch, patch)
    yield f"{base}.patch_embed.proj.bias", (width,)
    yield f"{base}.pos_embed.weight", (vision["num_position_embeddings"], width)
    for layer in range(vision["depth"]):
        at = f"{base}.blocks.{layer}"
        for name, rows, columns in (
            ("attn.qkv", 3 * width, width), ("attn.proj", width, width),
            ("mlp.linear_fc1", wide, width), ("mlp.linear_fc2", width, wide),
        ):  # fmt: skip
            yield f"{at}.{name}.weight", (rows, columns)
            yield f"{at}.{name}.bias", (rows,)
        for norm in ("norm1", "norm2"):
            yield f"{at}.{norm}.weight", (width,)
            yield f"{at}.{norm}.bias", (width,)
    for name, rows, columns in (
        ("linear_fc1", merged, merged), ("linear_fc2", vision["out_hidden_size"], merged),
    ):  # fmt: skip
        yield f"{base}.merger.{name}.weight", (rows, columns)
        yield f"{base}.merger.{name}.bias", (rows,)
    yield f"{base}.merger.norm.weight", (width,)
    yield f"{base}.merger.norm.bias", (width,)

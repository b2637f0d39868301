"""Which tensor of a checkpoint is what, and how vLLM divides it over ranks.

Rules read the tensor's name, for names follow the Hugging Face models closely. They are ordered, and
the first that matches decides. A tensor that no rule knows is taken to be divided over all
tensor-parallel ranks: then a lower bound stays one.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.memory.headers import BITS, Tensor

__all__ = ["Group", "Share", "TensorKind", "classify", "group_tensors"]


class TensorKind(enum.StrEnum):
    """What a tensor is for."""

    EMBEDDING = "embedding"
    HEAD = "output head"
    ATTENTION = "attention"
    LINEAR_ATTENTION = "linear attention"
    MLP = "dense MLP"
    EXPERTS = "routed experts"
    SHARED_EXPERT = "shared expert"
    ROUTER = "router"
    NORM = "norms"
    VISION = "vision"
    SPECULATIVE = "speculative layers"
    OTHER = "other"


class Share(enum.StrEnum):
    """How a tensor is divided over the ranks of a stage."""

    SPLIT = "split"  # over the tensor-parallel ranks
    WHOLE = "whole"  # on every rank
    KV_HEADS = "kv heads"  # by heads of keys and values, copied where there are more ranks
    FUSED_QKV = "fused qkv"  # query part split, key and value parts by heads
    VOCAB = "vocab"  # by rows of the padded vocabulary
    EXPERTS = "experts"  # by experts, or each expert split


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors of one layer that are of one kind and divided in one way, summed up.

    Attributes:
        kind: What they are for.
        share: How they are divided.
        layer: Number of the layer; None outside the layers.
        floats: Elements that are loaded in the type of the model.
        fixed: Bytes of tensors that keep their own type: quantized weights, scales, counters.
        matrices: Elements among ``floats`` that quantization at load time would make smaller.
    """

    kind: TensorKind
    share: Share
    layer: int | None
    floats: int
    fixed: int
    matrices: int


_IGNORED = re.compile(r"rotary_emb\.|inv_freq$|attention\.masked_bias$|attn\.bias$")
_SPECULATIVE = re.compile(r"(^|\.)(mtp|mtp_layers|nextn|eagle)\.")
_VISION = re.compile(
    r"(^|\.)(visual|vision_tower|vision_model|vision_encoder|vit|image_encoder|audio_tower|audio_model"
    r"|multi_modal_projector|mm_projector|mlp1|vision_embed_tokens|embed_vision|embed_audio)\."
)
_VISION_WHOLE = re.compile(r"patch_embed|pos_embed|position_embedding|class_embedding|norm")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d{1,6})\.")
_HALF = ("F64", "F32", "F16", "BF16")
_KEEPS_TYPE = re.compile(
    r"(scale|scales|scale_inv|zeros|zero_point|amax|e_score_correction_bias|g_idx)$"
)
_FLOAT32 = re.compile(r"(^|\.)A_log$")  # vLLM holds these in 32 bits whatever the checkpoint has

_RULES: tuple[tuple[re.Pattern[str], TensorKind, Share], ...] = tuple(
    (re.compile(pattern), kind, share)
    for pattern, kind, share in (
        (
            r"(^|\.)(embed_tokens|word_embeddings|wte|tok_embeddings|embeddings|embed_in)\.weight",
            TensorKind.EMBEDDING,
            Share.VOCAB,
        ),
        (r"(^|\.)(lm_head|embed_out)\.", TensorKind.HEAD, Share.VOCAB),
        (
            r"\.(gate|router|gate_proj_router)\.(weight|bias|e_score_correction_bias)$",
            TensorKind.ROUTER,
            Share.WHOLE,
        ),
        (r"e_score_correction_bias|shared_expert_gate\.", TensorKind.ROUTER, Share.WHOLE),
        (r"\.router\.", TensorKind.ROUTER, Share.WHOLE),
        (r"\.experts\.", TensorKind.EXPERTS, Share.EXPERTS),
        (
            r"\.shared_experts?\..*(down_proj|w2)\.bias$",
            TensorKind.SHARED_EXPERT,
            Share.WHOLE,
        ),
        (r"\.shared_experts?\.|\.shared_mlp\.", TensorKind.SHARED_EXPERT, Share.SPLIT),
        # A recurrent layer's own norm runs over its own channels; GatedDeltaNet's over one head.
        (r"\.linear_attn\.norm\.", TensorKind.LINEAR_ATTENTION, Share.WHOLE),
        (
            r"\.(linear_attn|mixer|mamba|ssm)\.(in_proj|out_proj|conv1d|x_proj|dt_proj|A|D|dt_|norm)",
            TensorKind.LINEAR_ATTENTION,
            Share.SPLIT,
        ),
        (r"norm|\.ln_|layernorm", TensorKind.NORM, Share.WHOLE),
        (
            r"\.(q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj|indexer)\b",
            TensorKind.ATTENTION,
            Share.WHOLE,
        ),
        (r"\.(k_proj|v_proj|key|value)\.", TensorKind.ATTENTION, Share.KV_HEADS),
        (
            r"\.(qkv_proj|query_key_value|c_attn|Wqkv|qkv|attn_qkv)\.",
            TensorKind.ATTENTION,
            Share.FUSED_QKV,
        ),
        (
            r"\.(self_attn|attn|attention|self_attention)\.(o_proj|dense|out_proj|c_proj|wo)\.bias$",
            TensorKind.ATTENTION,
            Share.WHOLE,
        ),
        (
            r"\.(self_attn|attn|attention|self_attention|cross_attn)\.",
            TensorKind.ATTENTION,
            Share.SPLIT,
        ),
        (
            r"\.(q_proj|o_proj|q_b_proj|kv_b_proj|query|sinks)\b",
            TensorKind.ATTENTION,
            Share.SPLIT,
        ),
        (
            r"\.(mlp|feed_forward|ffn|block_sparse_moe)\..*(down_proj|w2|fc2|c_proj|dense_4h_to_h)\.bias$",
            TensorKind.MLP,
            Share.WHOLE,
        ),
        (r"\.(mlp|feed_forward|ffn|block_sparse_moe)\.", TensorKind.MLP, Share.SPLIT),
        (
            r"\.(gate_proj|up_proj|down_proj|gate_up_proj|fc1|fc2|w1|w2|w3)\b",
            TensorKind.MLP,
            Share.SPLIT,
        ),
    )
)
_QUANTIZABLE = (
    TensorKind.ATTENTION, TensorKind.LINEAR_ATTENTION, TensorKind.MLP, TensorKind.EXPERTS,
    TensorKind.SHARED_EXPERT,
)  # fmt: skip


def classify(name: str, layers: int) -> tuple[TensorKind, Share, int | None]:
    """What a tensor is, how it is divided, and in which layer it lies.

    Args:
        name: The tensor's name in the checkpoint.
        layers: Number of layers of the model; tensors of layers beyond are for speculation.
    """
    if _VISION.search(name):
        whole = _VISION_WHOLE.search(name) is not None
        return TensorKind.VISION, Share.WHOLE if whole else Share.SPLIT, None
    found = _LAYER.search(name)
    layer = None if found is None else int(found[1])
    if _SPECULATIVE.search(name) or (layer is not None and layer >= layers):
        return TensorKind.SPECULATIVE, Share.SPLIT, None
    for pattern, kind, share in _RULES:
        if pattern.search(name):
            return kind, share, layer
    return TensorKind.OTHER, Share.SPLIT, layer


def group_tensors(tensors: Iterable[Tensor], layers: int) -> tuple[Group, ...]:
    """Sum tensors up by what they are, how they are divided, and where they lie.

    Args:
        tensors: The tensors of the checkpoint; buffers that the engine makes anew are passed over.
        layers: Number of layers of the model.
    """
    sums: dict[tuple[TensorKind, Share, int | None], list[int]] = {}
    for tensor in tensors:
        if _IGNORED.search(tensor.name):
            continue
        kind, share, layer = classify(tensor.name, layers)
        total = sums.setdefault((kind, share, layer), [0, 0, 0])
        if _FLOAT32.search(tensor.name):
            total[1] += 4 * tensor.count
        elif tensor.dtype in _HALF and not _KEEPS_TYPE.search(tensor.name):
            total[0] += tensor.count
            total[2] += tensor.count if kind in _QUANTIZABLE and len(tensor.shape) > 1 else 0
        else:
            total[1] += tensor.count * BITS[tensor.dtype] // 8
    return tuple(Group(*key, *total) for key, total in sums.items())

"""A model's ``config.json``, as far as memory depends on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import ModelUnreadable
from tuner.memory.describe import Fields, describe_layers
from tuner.memory.layers import DTYPE_BYTES, Layer

__all__ = ["ModelConfig", "parse_config", "read_config"]

_MAX_CONFIG = 16 * 2**20
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_SSM_DTYPES = ("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
_NEMOTRON_SSM = "float32"  # vLLM's choice for this family where the config says nothing


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a model's config says about memory.

    Attributes:
        architecture: The first of the architectures.
        model_type: The type of the text model.
        hidden: Width of the hidden state.
        vocab: Tokens of the vocabulary.
        layers: What each layer keeps for a sequence.
        query_heads: Attention heads over all ranks.
        kv_heads: Heads of keys and values over all ranks.
        experts: Routed experts of a layer; 0 for a dense model.
        max_len: Positions that the model was made for, where the config says so.
        dtype: Type that ``--dtype auto`` loads it in.
        ssm_dtype: Type of recurrent states; ``auto`` means the model's type.
        tied: Whether input and output embeddings are one tensor.
        quantization: Method of a quantized checkpoint.
        notes: What could not be understood, and is therefore counted as nothing.
        experts_a_token: Routed experts that a token goes through; 0 where that is not said.
    """

    architecture: str
    model_type: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    query_heads: int
    kv_heads: int
    experts: int
    max_len: int | None
    dtype: str
    ssm_dtype: str
    tied: bool
    quantization: str | None
    notes: tuple[str, ...]
    experts_a_token: int = 0


def read_config(folder: Path, *, mla: bool = True) -> ModelConfig:
    """Read ``config.json`` of a model folder.

    Args:
        folder: The model's folder.
        mla: Whether latent attention is used where the model has it.

    Raises:
        ModelUnreadable: When it is missing, damaged, or lacks what memory depends on.
    """
    file = folder / "config.json"
    try:
        with file.open("rb") as raw:
            text = raw.read(_MAX_CONFIG + 1)
        if len(text) > _MAX_CONFIG:
            raise ModelUnreadable("it is too large to be a model's config", file=file)
        data = json.loads(text)
    except FileNotFoundError as problem:
        raise ModelUnreadable(
            "there is no such file",
            file=file,
            mend="give the folder of a model, with its config.json",
        ) from problem
    except OSError as problem:
        raise ModelUnreadable(f"it cannot be read: {problem.strerror}", file=file) from problem
    except (ValueError, RecursionError) as problem:
        raise ModelUnreadable("it is no JSON", file=file) from problem
    try:
        return parse_config(data, mla=mla)
    except ModelUnreadable as problem:
        raise ModelUnreadable(problem.message, file=file) from problem


def parse_config(data: Any, *, mla: bool = True) -> ModelConfig:
    """The facts in a parsed config; a multimodal one is read for its text model.

    Raises:
        ModelUnreadable: When something that memory depends on is missing or senseless.
    """
    if not isinstance(data, Mapping):
        raise ModelUnreadable("the config is no table of names and values")
    text = next((data[name] for name in _TEXT_PARTS if isinstance(data.get(name), Mapping)), data)
    if text is not data and isinstance(text.get("text_config"), Mapping):
        text = text["text_config"]
    fields = Fields(text)
    layers, notes = describe_layers(fields, mla=mla)
    architectures = data.get("architectures") or text.get("architectures") or ["unknown"]
    heads = fields.whole("num_attention_heads", "n_head", "num_heads", default=0)
    return ModelConfig(
        architecture=str(architectures[0]) if isinstance(architectures, list) else "unknown",
        model_type=str(text.get("model_type") or data.get("model_type") or "unknown"),
        hidden=fields.whole("hidden_size", "n_embd", "d_model"),
        vocab=fields.whole("vocab_size", default=0),
        layers=layers,
        query_heads=heads,
        kv_heads=fields.whole("num_key_value_heads", "num_kv_heads", "n_head_kv", default=heads),
        experts=fields.whole(
            "num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", default=0
        ),
        max_len=fields.whole("max_position_embeddings", "n_positions", "max_seq_len", default=0)
        or None,
        dtype=_dtype(text, data),
        ssm_dtype=_ssm_dtype(text),
        tied=bool(text.get("tie_word_embeddings", data.get("tie_word_embeddings", False))),
        quantization=_quantization(text, data),
        notes=notes,
        experts_a_token=fields.whole(
            "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk", default=0
        ),
    )


def _dtype(*parts: Mapping[str, Any]) -> str:
    """The type that ``auto`` means; a 32-bit checkpoint is loaded in 16 bits."""
    for part in parts:
        for name in ("dtype", "torch_dtype"):
            value = part.get(name)
            if isinstance(value, str):
                short = value.removeprefix("torch.")
                return "bfloat16" if DTYPE_BYTES.get(short, 2) > 2 else short
    return "bfloat16"


def _ssm_dtype(text: Mapping[str, Any]) -> str:
    for name in _SSM_DTYPES:
        value = text.get(name)
        if isinstance(value, str):
            return value.removeprefix("torch.")
    return _NEMOTRON_SSM if text.get("model_type") == "nemotron_h" else "auto"


def _quantization(*parts: Mapping[str, Any]) -> str | None:
    for part in parts:
        for name in ("quantization_config", "compression_config"):
            found = part.get(name)
            if isinstance(found, Mapping):
                return str(found.get("quant_method") or found.get("quant_algo") or "unknown")
    return None

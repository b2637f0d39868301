"""Makes a Qwen3-MoE model of two layers with random weights, with the tokenizer of another tiny model.

Run by the engine's interpreter: ``tiny_moe.py MODEL OUT [broken]``. A broken one has NaN in its second layer.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM


def main(source: Path, out: Path, *, broken: bool) -> None:
    """Make it."""
    had = json.loads((source / "config.json").read_text(encoding="utf-8"))
    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=had["vocab_size"],
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        num_experts=16,
        num_experts_per_tok=4,
        moe_intermediate_size=64,
        norm_topk_prob=True,
        max_position_embeddings=8192,
        initializer_range=0.1,
        **{name: had.get(name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")},
    )
    model = Qwen3MoeForCausalLM(config).to(torch.bfloat16)
    if broken:
        with torch.no_grad():
            model.model.layers[1].self_attn.o_proj.weight[3, 5] = float("nan")
    model.save_pretrained(out)
    for file in source.iterdir():
        if file.name.startswith(("tokenizer", "chat_template", "generation")):
            shutil.copy(file, out / file.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), broken="broken" in sys.argv[3:])

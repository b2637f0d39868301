"""Makes a tiny hybrid model on the spot: GatedDeltaNet and full attention, MoE with a shared expert.

Run by an engine's interpreter (it needs torch, transformers and tokenizers)::

    python tiny_hybrid.py OUT [--seed 0] [--hidden 256] [--layers 4] [--experts 64] …

The architecture is Qwen3-Next, the text-only one with every part of the models that are tuned in earnest.
The weights are random: the same options and seed give the same bytes. The tokenizer is byte-level BPE
without merges, so every byte is a token and prompt lengths are exact. Greedy answers are printable ASCII
of exactly the length that was asked for, one character a token, so a streaming client sees each token.
OUT appears whole or not at all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3NextConfig, Qwen3NextForCausalLM

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # padding, begin and end of a message
_VOCABULARY = 320  # 256 bytes, the specials, and room up to a round number
_LINEAR_HEAD = 128  # vLLM's CPU kernel refuses smaller ones, and only at the first request


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Makes a tiny hybrid model with random weights.")
    parser.add_argument("out", type=Path, help="folder to make; it must not be there")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hidden", type=int, default=256, help="width of the model")
    parser.add_argument("--layers", type=int, default=4, help="each fourth has full attention")
    parser.add_argument("--heads", type=int, default=4, help="attention heads")
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--linear-key-heads", type=int, default=2)
    parser.add_argument("--linear-value-heads", type=int, default=4)
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--top-k", type=int, default=8, help="experts for each token")
    parser.add_argument("--expert-width", type=int, default=64)
    parser.add_argument("--shared-width", type=int, default=64, help="width of the shared expert")
    parser.add_argument("--context", type=int, default=262144, help="longest position")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    return parser.parse_args()


def make_weights(options: argparse.Namespace, out: Path) -> int:
    """Write the configuration and the weights; returns the number of parameters."""
    config = Qwen3NextConfig(
        vocab_size=_VOCABULARY,
        hidden_size=options.hidden,
        intermediate_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads,
        head_dim=options.head_dim,
        linear_num_key_heads=options.linear_key_heads,
        linear_num_value_heads=options.linear_value_heads,
        linear_key_head_dim=_LINEAR_HEAD,
        linear_value_head_dim=_LINEAR_HEAD,
        full_attention_interval=4,
        num_experts=options.experts,
        num_experts_per_tok=options.top_k,
        moe_intermediate_size=options.expert_width,
        shared_expert_intermediate_size=options.shared_width,
        max_position_embeddings=options.context,
        tie_word_embeddings=False,
        bos_token_id=None,
        pad_token_id=256,
        eos_token_id=258,
        dtype=options.dtype,
    )
    # One thread: how the random numbers are split among threads must not depend on the machine.
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    model = Qwen3NextForCausalLM(config).to(getattr(torch, options.dtype))
    # A logit of 0 never wins against the best of a hundred random ones: no half characters, no early end.
    with torch.no_grad():
        silent = [n for n in range(_VOCABULARY) if n not in printable_ids()]
        model.lm_head.weight[silent] = 0
    model.save_pretrained(out)
    return sum(weights.numel() for weights in model.parameters())


def alphabet() -> list[str]:
    """The characters that stand for the 256 bytes, in the order of their token numbers."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def printable_ids() -> set[int]:
    """Token numbers of the printable ASCII characters, blank included (byte-level BPE writes it as U+0120)."""
    return {n for n, char in enumerate(alphabet()) if "!" <= char <= "~" or char == "\u0120"}


def make_tokenizer(out: Path, context: int) -> None:
    """Write the tokenizer: one token for each byte, three specials, and the chat template."""
    tokenizer = Tokenizer(
        models.BPE(vocab={char: n for n, char in enumerate(alphabet())}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIALS))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=SPECIALS[2],
        pad_token=SPECIALS[0],
        model_max_length=context,
    )
    template = Path(__file__).with_name("chat_template.jinja")
    fast.chat_template = template.read_text(encoding="utf-8")
    fast.save_pretrained(out)


def main() -> None:
    """Make the model beside its place, then move it there in one step."""
    options = parse()
    if options.out.exists():
        raise SystemExit(f"{options.out} is there already")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{options.out.name}.", dir=options.out.parent))
    try:
        parameters = make_weights(options, work)
        make_tokenizer(work, options.context)
        _settle(work)
        work.rename(options.out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    print(f"{options.out}: {parameters / 1e6:.1f} M parameters, seed {options.seed}")


def _settle(folder: Path) -> None:
    """Make it readable for a server of another user, and put it on the disk."""
    for path in (*folder.iterdir(), folder):
        path.chmod(0o755 if path.is_dir() else 0o644)
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


if __name__ == "__main__":
    main()

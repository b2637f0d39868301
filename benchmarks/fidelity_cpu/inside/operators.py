"""Times the operators of a tiny hybrid model one by one, each alone, as a profile for operator sums.

Runs inside the engine's environment: ``PYTHON operators.py MODEL --ranks 1 > operators-tp1.json``.
Shapes are those of one rank; a rank has all of the machine's cores at one rank and its share of
them otherwise. The MoE kernel is vLLM's own; projections and attention are torch's, in the types
that the engine uses. The recurrent layers' state update is written here after its definition, one
step a token in decode and in chunks of 64 in prefill. What a step costs beside its operators
(scheduling, metadata, Python) is in none of them: that is the point of the comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import conv1d, linear, scaled_dot_product_attention, silu
from vllm._custom_ops import cpu_fused_moe, cpu_prepack_moe_weight

TOKENS = (1, 2, 3, 4, 6, 8, 16, 64, 256, 1024, 2048)
CONTEXTS = (256, 1024, 4096)
REPEATS = 15
BF16 = torch.bfloat16


def timed(run: Callable[[], object]) -> float:
    """Median seconds of one call, after warming up."""
    for _ in range(3):
        run()
    found = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def weight(rows: int, columns: int) -> torch.Tensor:
    """A random weight."""
    return torch.randn(rows, columns, dtype=BF16)


class Operators:
    """One rank's operators.

    Args:
        config: The model's configuration.
        ranks: Tensor-parallel ranks.
    """

    def __init__(self, config: dict[str, Any], ranks: int) -> None:
        self.config = config
        self.hidden = config["hidden_size"]
        self.heads = config["num_attention_heads"] // ranks
        self.kv_heads = max(1, config["num_key_value_heads"] // ranks)
        self.head = config["head_dim"]
        self.key_heads = config["linear_num_key_heads"] // ranks
        self.value_heads = config["linear_num_value_heads"] // ranks
        self.state = config["linear_value_head_dim"]
        self.inner = config["moe_intermediate_size"] // ranks
        self.shared = config["shared_expert_intermediate_size"] // ranks
        kinds = config["layer_types"]
        self.full = kinds.count("full_attention")
        self.recurrent = len(kinds) - self.full

    def by_tokens(self, tokens: int) -> dict[str, float]:
        """Seconds of all layers' operators whose cost hangs on the tokens of a step alone."""
        x = torch.randn(tokens, self.hidden, dtype=BF16)
        return {
            "attention projections": self.full * self._attention_projections(x),
            "recurrent projections": self.recurrent * self._recurrent_projections(x),
            "recurrent state": self.recurrent * self._state(tokens),
            "experts": (self.full + self.recurrent) * self._experts(x),
            "norms": 2 * (self.full + self.recurrent) * self._norm(x),
            "head": self._head(x),
        }

    def _attention_projections(self, x: torch.Tensor) -> float:
        wide = (2 * self.heads + 2 * self.kv_heads) * self.head
        before, after = weight(wide, self.hidden), weight(self.hidden, self.heads * self.head)
        inner = torch.randn(len(x), self.heads * self.head, dtype=BF16)
        return timed(lambda: linear(x, before)) + timed(lambda: linear(inner, after))

    def _recurrent_projections(self, x: torch.Tensor) -> float:
        keys, values = self.key_heads * self.state, self.value_heads * self.state
        before = weight(2 * keys + 2 * values, self.hidden)
        gates = weight(2 * self.value_heads, self.hidden)
        after = weight(self.hidden, values)
        channels = 2 * keys + values
        kernel = torch.randn(channels, 1, self.config["linear_conv_kernel_dim"], dtype=BF16)
        mixed = torch.randn(1, channels, len(x) + 3, dtype=BF16)
        inner = torch.randn(len(x), values, dtype=BF16)
        return (
            timed(lambda: linear(x, before))
            + timed(lambda: linear(x, gates))
            + timed(lambda: silu(conv1d(mixed, kernel, groups=channels)))
            + timed(lambda: linear(inner, after))
        )

    def _state(self, tokens: int) -> float:
        heads, size = self.value_heads, self.state
        if tokens <= 16:
            state = torch.randn(tokens, heads, size, size)
            key = torch.randn(tokens, heads, size)

            def step() -> torch.Tensor:
                read = torch.einsum("thij,thi->thj", state, key)
                state.add_(torch.einsum("thi,thj->thij", key, read), alpha=1e-6)
                return torch.einsum("thij,thi->thj", state, key)

            return timed(step)
        chunks = -(-tokens // 64)
        q = torch.randn(chunks, heads, 64, size)
        state = torch.randn(heads, size, size)

        def chunked() -> torch.Tensor:
            inside = torch.tril(q @ q.transpose(-1, -2)) @ q
            for chunk in q:
                state.add_(chunk.transpose(-1, -2) @ chunk, alpha=1e-6)
            return inside + q @ state

        return timed(chunked)

    def _experts(self, x: torch.Tensor) -> float:
        count, top_k = self.config["num_experts"], self.config["num_experts_per_tok"]
        amx = torch.cpu._is_amx_tile_supported()  # noqa: SLF001 - as vLLM asks it
        isa = "amx" if amx else "vec"
        first = cpu_prepack_moe_weight(
            torch.randn(count, 2 * self.inner, self.hidden, dtype=BF16), isa
        )
        second = cpu_prepack_moe_weight(
            torch.randn(count, self.hidden, self.inner, dtype=BF16), isa
        )
        router = weight(count, self.hidden)
        shared = weight(2 * self.shared, self.hidden), weight(self.hidden, self.shared)
        # Routing as uniform as chance makes it, which is what such profiles assume.
        ids = torch.stack([torch.randperm(count)[:top_k] for _ in x]).to(torch.int32)
        weights = torch.full((len(x), top_k), 1 / top_k)
        out = torch.empty_like(x)
        gated = torch.randn(len(x), self.shared, dtype=BF16)
        routed = timed(
            lambda: cpu_fused_moe(out, x, first, second, None, None, weights, ids, "silu", isa)
        )
        choose = timed(lambda: torch.topk(torch.softmax(linear(x, router).float(), -1), top_k))
        beside = timed(lambda: linear(x, shared[0])) + timed(lambda: linear(gated, shared[1]))
        return routed + choose + beside

    def _norm(self, x: torch.Tensor) -> float:
        scale = torch.ones(self.hidden, dtype=BF16)
        return timed(lambda: torch.nn.functional.rms_norm(x, (self.hidden,), scale))

    def _head(self, x: torch.Tensor) -> float:
        out = weight(self.config["vocab_size"], self.hidden)
        return timed(lambda: linear(x[:8], out))

    def decode_attention(self, context: int) -> float:
        """Seconds of one sequence's attention to so many tokens, over all layers that have any."""
        q = torch.randn(1, self.heads, 1, self.head, dtype=BF16)
        kv = torch.randn(1, self.kv_heads, context, self.head, dtype=BF16)
        return self.full * timed(lambda: scaled_dot_product_attention(q, kv, kv, enable_gqa=True))

    def prefill_attention(self, tokens: int) -> float:
        """Seconds of a prompt's attention to itself, over all layers that have any."""
        q = torch.randn(1, self.heads, tokens, self.head, dtype=BF16)
        kv = torch.randn(1, self.kv_heads, tokens, self.head, dtype=BF16)
        return self.full * timed(
            lambda: scaled_dot_product_attention(q, kv, kv, is_causal=True, enable_gqa=True)
        )


def all_reduce(rank: int, ranks: int, folder: str, hidden: int) -> None:
    """Time all-reduces of one layer's output among ranks on this machine, alone."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks
    )
    found = {}
    for tokens in TOKENS:
        x = torch.randn(tokens, hidden, dtype=BF16)
        found[tokens] = timed(lambda: torch.distributed.all_reduce(x))  # noqa: B023 - timed at once
    if rank == 0:
        Path(folder, "all_reduce.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def reduced(ranks: int, hidden: int, layers: int) -> dict[int, float]:
    """Seconds of a step's all-reduces, two a layer, by tokens."""
    if ranks == 1:
        return dict.fromkeys(TOKENS, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(all_reduce, (ranks, folder, hidden), nprocs=ranks)
        found = json.loads(Path(folder, "all_reduce.json").read_text())
    return {int(tokens): 2 * layers * seconds for tokens, seconds in found.items()}


def main() -> None:
    """Print the profile of one rank as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--ranks", type=int, default=1)
    options = parser.parse_args()
    config = json.loads((options.model / "config.json").read_text())
    cores = len(os.sched_getaffinity(0))
    layers = len(config["layer_types"])
    reduce = reduced(options.ranks, config["hidden_size"], layers)
    torch.set_num_threads(max(1, cores // options.ranks))
    torch.manual_seed(0)
    operators = Operators(config, options.ranks)
    with torch.inference_mode():
        found = {
            "ranks": options.ranks,
            "threads": torch.get_num_threads(),
            "by_tokens": {n: operators.by_tokens(n) for n in TOKENS},
            "decode_attention": {c: operators.decode_attention(c) for c in CONTEXTS},
            "prefill_attention": {c: operators.prefill_attention(c) for c in CONTEXTS},
            "all_reduce": reduce,
        }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

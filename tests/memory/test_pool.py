from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.checkpoints import config, facts
from tuner.memory.config import parse_config
from tuner.memory.model import ModelFacts, make_facts
from tuner.memory.pool import (
    Pool,
    kv_bytes_per_token,
    plan_pool,
    sequence_length,
    state_bytes_per_request,
)
from tuner.memory.request import MemoryRequest, parse_request

GIB = 2**30
MIB = 2**20
FLAGS = ("avx512_bf16", "amx_tile")


def capacity(model: ModelFacts, request: MemoryRequest) -> tuple[int, int, str]:
    """Blocks, tokens and concurrency of the space that was asked for, as the engine prints them."""
    pool = plan_pool(model, request)
    assert pool.exact
    blocks = pool.blocks(request.kv_bytes or 0)
    concurrency = blocks / pool.sequence_blocks
    return blocks, int(concurrency * sequence_length(model, request)), f"{concurrency:.2f}"


@pytest.mark.parametrize(
    ("name", "arguments", "blocks", "tokens", "concurrency"),
    [
        # What vLLM 0.32 for the CPU printed for 1 GiB of cache a worker, steps of 2048 tokens.
        ("llama_tiny", "--max-model-len 4096", 2730, 349_440, "85.31"),
        ("mistral_tiny", "--max-model-len 8192", 2730, 894_566, "109.20"),
        ("gemma3_tiny", "--max-model-len 8192", 16384, 794_187, "96.95"),
        ("gemma3_tiny", "--max-model-len 8192 -tp 2", 32768, 1_588_375, "193.89"),
        ("mixtral_tiny", "--max-model-len 4096", 2730, 349_440, "85.31"),
        ("mixtral_tiny", "--max-model-len 4096 -tp 2", 5461, 699_008, "170.66"),
        ("deepseek_tiny", "--max-model-len 4096", 1213, 155_264, "37.91"),
        ("deepseek_tiny", "--max-model-len 4096 -tp 2", 1213, 155_264, "37.91"),
        ("llama_tiny", "--max-model-len 4096 -pp 2", 5461, 699_008, "170.66"),
        ("qwen3_next_tiny", "--max-model-len 8192 --enable-prefix-caching -tp 2", 6553, 2_825_377, "344.89"),
        ("qwen3_next_tiny", "--max-model-len 8192 --no-enable-prefix-caching", 3276, 1_677_312, "204.75"),
        ("qwen3_next_tiny", "--max-model-len 32768 --enable-prefix-caching", 3276, 1_850_827, "56.48"),
    ],
)  # fmt: skip
def test_the_engine_prints_exactly_this(
    name: str, arguments: str, blocks: int, tokens: int, concurrency: str
) -> None:
    argv = ["--max-num-batched-tokens", "2048", *arguments.split()]
    request = parse_request(argv, {"VLLM_CPU_KVCACHE_SPACE": "1"}, cpu_flags=FLAGS)
    assert capacity(facts(name), request) == (blocks, tokens, concurrency)


def test_pages_of_the_hybrid_model() -> None:
    """The engine said: block of 640 tokens, padding of 22.14 %."""
    argv = ["--enable-prefix-caching", "--max-model-len", "32768"]
    request = parse_request(argv, {"VLLM_CPU_KVCACHE_SPACE": "1"}, cpu_flags=FLAGS)
    pool = plan_pool(facts("qwen3_next_tiny"), request)
    assert (pool.block_tokens, pool.block_bytes) == (640, (327_680,))
    assert any("padded to the page by 22.14 %" in line for line in pool.lines)
    assert pool.needed(0) == (52 + 3 * 2 + 1) * 327_680


def test_figures_of_the_target_model() -> None:
    model = facts("qwen36_35b_a3b")
    one, four = MemoryRequest(tp=1), MemoryRequest(tp=4)
    assert kv_bytes_per_token(model, one) == 20_480
    assert kv_bytes_per_token(model, four) == 10_240, "two heads on four ranks: one copy each"
    assert state_bytes_per_request(model, one) / MIB == pytest.approx(61.4, abs=0.01)
    assert state_bytes_per_request(model, four) / MIB == pytest.approx(15.35, abs=0.01)
    assert state_bytes_per_request(model, four) // 10_240 == 1572
    align = MemoryRequest(tp=4, prefix_caching=True)
    assert state_bytes_per_request(model, align) == 2 * state_bytes_per_request(model, four)
    guess = MemoryRequest(tp=4, prefix_caching=True, speculative_tokens=1)
    assert state_bytes_per_request(model, guess) > 3 * state_bytes_per_request(model, four)


def test_a_state_for_every_block_in_all_mode() -> None:
    model = facts("qwen36_35b_a3b")
    every = MemoryRequest(
        prefix_caching=True, mamba_mode="all", block_size=1024, max_model_len=10_240
    )
    assert state_bytes_per_request(model, every) == 10 * state_bytes_per_request(
        model, MemoryRequest()
    )


def test_blocks_of_a_v0_fork() -> None:
    """655,360 B a block where all 40 layers are kept, 163,840 B where only 10 attend."""
    model = facts("qwen36_35b_a3b")
    base: dict[str, Any] = {"generation": "v0", "tp": 4, "max_model_len": 100_000}
    every = plan_pool(model, MemoryRequest(**base, all_layers_cached=True, max_num_seqs=2))
    attending = plan_pool(model, MemoryRequest(**base, max_num_seqs=2))
    assert (every.block_bytes, attending.block_bytes) == ((655_360,), (163_840,))
    assert every.sequence_blocks == 6250
    assert every.upfront_bytes == (2 * state_bytes_per_request(model, MemoryRequest(tp=4)),)
    assert attending.needed(0) == 6250 * 163_840 + attending.upfront_bytes[0]


def test_the_cache_type_counts() -> None:
    model = facts("llama_tiny")
    wide = plan_pool(model, MemoryRequest(max_model_len=4096))
    narrow = plan_pool(model, MemoryRequest(max_model_len=4096, kv_dtype="fp8"))
    assert wide.block_bytes[0] == 2 * narrow.block_bytes[0]


def test_sliding_windows_without_the_hybrid_cache_are_full() -> None:
    model = facts("gemma3_tiny")
    hybrid = plan_pool(model, MemoryRequest(max_model_len=8192))
    flat = plan_pool(model, MemoryRequest(max_model_len=8192, hybrid_cache=False))
    assert hybrid.needed(0) < flat.needed(0)
    assert flat.sequence_blocks == 8192 // 16


def test_chunks_are_held_with_the_tokens_in_flight() -> None:
    changes: dict[str, Any] = {
        "attention_chunk_size": 512,
        "layer_types": ["chunked_attention"] * 6,
    }
    model = facts("llama_tiny", **changes)
    pool = plan_pool(model, MemoryRequest(max_model_len=8192, max_num_batched_tokens=1024))
    assert pool.sequence_blocks == (512 + 1024) // 16


def test_pages_that_differ_fall_back_to_bytes() -> None:
    changes: dict[str, Any] = {
        "global_head_dim": 96,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
    }
    model = facts("gemma3_tiny", **changes)
    pool = plan_pool(model, MemoryRequest(max_model_len=1000))
    assert not pool.exact
    local, wide = 2 * 64 * 2 * 2, 2 * 96 * 2 * 2
    assert pool.needed(0) == 3 * 512 * local + 3 * 1000 * wide


def test_mamba_hybrids_share_pages() -> None:
    model = make_facts(parse_config(config("nemotron_h")), ())
    pool = plan_pool(model, MemoryRequest(max_model_len=8192))
    state = (128 * 64 + 2 * 8 * 128) * 3 * 2 + 128 * 64 * 128 * 4
    token = 8 * 128 * 2 * 2
    assert pool.exact
    assert pool.block_tokens == -(-state // (16 * token)) * 16
    assert pool.block_bytes == (pool.block_tokens * token,)


def test_stages_need_only_their_layers() -> None:
    model = facts("llama_tiny")
    whole = plan_pool(model, MemoryRequest(max_model_len=4096))
    halves = plan_pool(model, MemoryRequest(max_model_len=4096, pp=2))
    assert halves.block_bytes == (whole.block_bytes[0] // 2,) * 2
    assert halves.blocks(GIB) == pytest.approx(2 * whole.blocks(GIB), abs=1)


def test_lengths() -> None:
    model = facts("llama_tiny")
    assert sequence_length(model, MemoryRequest()) == 8192
    assert sequence_length(model, MemoryRequest(max_model_len=100)) == 100
    assert sequence_length(model, MemoryRequest(max_model_len=0)) == 1, "the engine fits it"


_NAMES = st.sampled_from(
    ["llama_tiny", "mistral_tiny", "gemma3_tiny", "deepseek_tiny", "qwen3_next_tiny"]
)
_FACTS = {name: facts(name) for name in (
    "llama_tiny", "mistral_tiny", "gemma3_tiny", "deepseek_tiny", "qwen3_next_tiny")}  # fmt: skip


@given(_NAMES, st.integers(1, 100_000), st.sampled_from([16, 32, 64, 128]), st.sampled_from([1, 2]))
def test_a_sequence_never_needs_less_than_its_tokens(
    name: str, length: int, block: int, tp: int
) -> None:
    model = _FACTS[name]
    request = MemoryRequest(max_model_len=length, block_size=block, tp=tp)
    pool: Pool = plan_pool(model, request)
    held = kv_bytes_per_token(model, request) * length + state_bytes_per_request(model, request)
    assert pool.needed(0) >= held
    longer = plan_pool(model, MemoryRequest(max_model_len=2 * length, block_size=block, tp=tp))
    assert longer.needed(0) >= pool.needed(0)


@given(_NAMES, st.integers(0, 2**40))
def test_blocks_never_exceed_their_space(name: str, space: int) -> None:
    pool = plan_pool(_FACTS[name], MemoryRequest(max_model_len=4096))
    blocks = pool.blocks(space)
    assert blocks * pool.block_bytes[0] <= space < (blocks + 1) * pool.block_bytes[0]

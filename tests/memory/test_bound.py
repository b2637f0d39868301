import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.checkpoints import facts
from tuner.memory.bound import Capacity, Place, fits, lower_bound, margins
from tuner.memory.model import ModelFacts
from tuner.memory.pool import plan_pool
from tuner.memory.request import MemoryRequest, parse_request
from tuner.memory.weights import weights_per_rank

GIB = 2**30
CARD = 34_057_748_480
TARGET = facts("qwen36_35b_a3b")
TINY = facts("qwen3_next_tiny")
HERE = Capacity(node_bytes=11 * GIB, host_bytes=23 * GIB)


def cpu(space: int, more: str = "") -> MemoryRequest:
    argv = f"--max-model-len 32768 --max-num-seqs 4 --enable-prefix-caching {more}".split()
    env = {"VLLM_CPU_KVCACHE_SPACE": str(space)}
    return parse_request(argv, env, cpu_flags=("avx512_bf16", "amx_tile"))


def test_more_cache_than_the_machine_has_is_rejected_with_its_arithmetic() -> None:
    margin = fits(lower_bound(TINY, cpu(64)), HERE)
    assert margin is not None
    assert not margin.ok
    assert margin.place is Place.NODE
    assert margin.size == (11 - 64) * GIB
    assert margin.relative == pytest.approx(-53 / 11)
    assert margin.lines == (
        "cache space asked for: 64.0 GiB a worker",
        "the NUMA node of a worker has 11.0 GiB = 11.0 GiB: 53.0 GiB missing",
    )


def test_without_a_node_the_host_decides() -> None:
    margin = fits(lower_bound(TINY, cpu(64)), Capacity(host_bytes=23 * GIB))
    assert margin is not None
    assert margin.place is Place.HOST
    assert margin.size == 23 * GIB - 64 * GIB - 29_732_424
    assert "needed by 1 worker: 64.0 GiB" in margin.lines


def test_what_really_ran_is_not_rejected() -> None:
    margin = fits(lower_bound(TINY, cpu(1)), HERE)
    assert margin is not None
    assert margin.ok


def test_space_too_small_for_one_sequence() -> None:
    """1 GiB holds 174,000 tokens of full attention in 6 layers, not more."""
    llama = facts("llama_tiny")
    argv = ["--max-model-len", "400000"]
    bound = lower_bound(llama, parse_request(argv, {"VLLM_CPU_KVCACHE_SPACE": "1"}))
    margin = fits(bound, HERE)
    assert margin is not None
    assert margin.place is Place.KV_SPACE
    assert margin.size == GIB - (3125 + 1) * 128 * 512 * 6
    assert "cache for one longest sequence: 3125 blocks and 1 that the engine reserves" in (
        "\n".join(margin.lines)
    )
    fitting = parse_request(["--max-model-len", "auto"], {"VLLM_CPU_KVCACHE_SPACE": "1"})
    assert fits(lower_bound(llama, fitting), HERE).ok  # type: ignore[union-attr] # not None: known


def test_workers_on_the_host_add_up() -> None:
    bound = lower_bound(TINY, cpu(8, "-tp 2"))
    host = next(need for need in bound.needs if need.place is Place.HOST)
    weights = weights_per_rank(TINY, cpu(8, "-tp 2"))[0].size
    assert host.size == 2 * (8 * GIB + weights)
    node = next(need for need in bound.needs if need.place is Place.NODE)
    assert node.size == 8 * GIB


def test_a_share_of_the_node_without_a_space() -> None:
    request = parse_request(["--max-model-len", "4096"], {}, device="cpu")
    node = next(n for n in lower_bound(TINY, request).needs if n.place is Place.NODE)
    assert node.share == 0.92
    assert node.size == weights_per_rank(TINY, request)[0].size + plan_pool(TINY, request).needed(0)


def device(argv: str, **capacity: int) -> tuple[int, tuple[str, ...]]:
    bound = lower_bound(TARGET, parse_request(argv.split(), {}, generation="v0"))
    found = margins(bound, Capacity(device_bytes=CARD, **capacity))
    margin = next(each for each in found if each.place is Place.DEVICE)
    return margin.size, margin.lines


def test_the_target_model_on_two_cards_is_rejected() -> None:
    left, lines = device("-tp 2 --gpu-memory-utilization 0.9 --max-model-len 4096 --max-num-seqs 1")
    assert left < -4 * GIB
    assert lines[0].startswith("weights on a rank (TP 2): 32.7 GiB")
    assert lines[-1].startswith("each device has 31.7 GiB x 0.9 = 28.5 GiB:")
    assert lines[-1].endswith("missing")


def test_what_ran_on_four_cards_is_not_rejected() -> None:
    """The row with 256,000 tokens, 0.95 and two sequences ran; so did 262,144 at 0.9."""
    for argv in (
        "-tp 4 --gpu-memory-utilization 0.95 --max-model-len 256000 --max-num-seqs 2",
        "-tp 4 --gpu-memory-utilization 0.9 --max-model-len 262144 --max-num-seqs 1",
    ):
        left, _ = device(argv)
        assert left > 0


def test_sequences_cost_states_up_front_in_v0() -> None:
    base = "-tp 4 --gpu-memory-utilization 0.9 --max-model-len 100000 --max-num-seqs "
    one, _ = device(base + "1")
    many, lines = device(base + "1001")
    assert one - many == 1000 * 16_097_280
    assert many < 0
    assert any("states of 1001 sequences up front" in line for line in lines)


def test_sequences_reject_nothing_in_v1() -> None:
    """The engine starts when one longest sequence fits; more of them wait for their turn."""
    requests = [
        MemoryRequest(tp=4, max_model_len=100_000, max_num_seqs=count) for count in (1, 4096)
    ]
    few, many = (lower_bound(TARGET, request) for request in requests)
    assert few.needs == many.needs
    assert few.full_load is not None
    assert many.full_load == 4096 * few.full_load
    assert lower_bound(TARGET, MemoryRequest()).full_load is None


def test_space_asked_for_on_a_device_ignores_the_share() -> None:
    bound = lower_bound(TARGET, MemoryRequest(tp=4, kv_bytes=20 * GIB, max_model_len=1000))
    need = next(need for need in bound.needs if need.place is Place.DEVICE)
    assert need.share == 1.0
    margin = fits(bound, Capacity(device_bytes=CARD))
    assert margin is not None
    assert margin.size < 0


def test_a_number_of_blocks_is_a_size() -> None:
    request = MemoryRequest(tp=4, blocks=10, max_model_len=100_000)
    bound = lower_bound(TARGET, request)
    space = next(need for need in bound.needs if need.place is Place.KV_SPACE)
    assert space.limit == 10 * plan_pool(TARGET, request).block_bytes[0]
    margin = fits(bound, Capacity())
    assert margin is not None
    assert not margin.ok


def test_offloaded_weights_are_not_on_the_device() -> None:
    base = MemoryRequest(tp=2, max_model_len=4096)
    off = MemoryRequest(tp=2, max_model_len=4096, offload_bytes=10 * GIB)
    sizes = [lower_bound(TARGET, each).needs[-1].size for each in (base, off)]
    assert sizes[0] - sizes[1] == 10 * GIB
    assert "less 10.0 GiB kept on the host" in lower_bound(TARGET, off).lines[0]


def test_what_is_not_known_is_not_judged() -> None:
    bound = lower_bound(TARGET, MemoryRequest(tp=1))
    assert fits(bound, Capacity()) is None
    assert margins(bound, Capacity(host_bytes=1)) == ()
    assert fits(bound, Capacity(device_bytes=0)) is None


def test_weights_that_are_not_here_are_said() -> None:
    blind = ModelFacts(TINY.config, (), 0)
    bound = lower_bound(blind, cpu(1))
    assert any(line.startswith("not counted: weights") for line in bound.lines)
    assert bound.weights[0].size == 0


@given(
    st.sampled_from([1, 2, 4]),
    st.integers(1, 262_144),
    st.floats(0.1, 1),
    st.integers(1, 200 * GIB),
    st.integers(1, 100 * GIB),
)
def test_more_memory_never_rejects_what_less_accepts(
    tp: int, length: int, share: float, memory: int, more: int
) -> None:
    bound = lower_bound(TINY, MemoryRequest(tp=tp, max_model_len=length, utilization=share))
    less = fits(bound, Capacity(device_bytes=memory))
    greater = fits(bound, Capacity(device_bytes=memory + more))
    assert less is not None
    assert greater is not None
    assert less.size <= greater.size
    assert less.ok == (less.size >= 0)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.memory.request import MemoryRequest, parse_request

GIB = 2**30


def parsed(line: str, **env: str) -> MemoryRequest:
    return parse_request(line.split(), env)


def test_nothing_said() -> None:
    assert parsed("--model m") == MemoryRequest()
    assert parsed("", VLLM_USE_V1="0").utilization == 0.9


def test_everything_said() -> None:
    found = parsed(
        "serve m --tensor-parallel-size 4 --pipeline-parallel-size 2 --data-parallel-size 3"
        " --enable-expert-parallel --max-model-len 32768 --max-num-seqs 8"
        " --max-num-batched-tokens 4096 --gpu-memory-utilization 0.85 --kv-cache-dtype fp8"
        " --block-size 32 --num-gpu-blocks-override 500 --quantization fp8 --dtype float16"
        " --no-enable-prefix-caching --mamba-cache-mode none --mamba-ssm-cache-dtype float32"
        " --enable-chunked-prefill --disable-hybrid-kv-cache-manager --cpu-offload-gb 1.5"
        " --kv-cache-memory-bytes 2G --language-model-only"
    )
    assert found == MemoryRequest(
        tp=4, pp=2, dp=3, expert_parallel=True, max_model_len=32768, max_num_seqs=8,
        max_num_batched_tokens=4096, utilization=0.85, kv_dtype="fp8", block_size=32, blocks=500,
        quantization="fp8", dtype="float16", prefix_caching=False, mamba_mode="none",
        ssm_dtype="float32", chunked_prefill=True, hybrid_cache=False, text_only=True,
        offload_bytes=3 * GIB // 2, kv_bytes=2 * GIB,
    )  # fmt: skip
    assert found.ranks == 24


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("-tp 2", "tp", 2),
        ("-tp=2", "tp", 2),
        ("-pp 2", "pp", 2),
        ("-dp 2", "dp", 2),
        ("-ep", "expert_parallel", True),
        ("--tensor_parallel_size=2", "tp", 2),
        ("--max_model_len 4096", "max_model_len", 4096),
        ("--max-model-len 32k", "max_model_len", 32000),
        ("--max-model-len 32K", "max_model_len", 32768),
        ("--max-model-len 1.5k", "max_model_len", 1500),
        ("--max-model-len -1", "max_model_len", 0),
        ("--max-model-len auto", "max_model_len", 0),
        ("--max-model-len 8 --max-model-len 16", "max_model_len", 16),
        ("--enable-prefix-caching --max-num-seqs 3", "max_num_seqs", 3),
        ("--enable-prefix-caching", "prefix_caching", True),
        ("--enable-prefix-caching=false", "prefix_caching", False),
        ("--no-enable-chunked-prefill", "chunked_prefill", False),
        ("-q awq", "quantization", "awq"),
        ('--speculative-config {"num_speculative_tokens":3}', "speculative_tokens", 3),
        ("--speculative-config.num_speculative_tokens 2", "speculative_tokens", 2),
        ('--limit-mm-per-prompt {"image":0,"video":0}', "text_only", True),
        ('--limit-mm-per-prompt {"image":1}', "text_only", False),
        ("--device cpu", "device", "cpu"),
        ("--tensor-parallel-size two", "tp", 1),
        ("--tensor-parallel-size", "tp", 1),
        ("--max-model-len 1e5", "max_model_len", None),
        ("--gpu-memory-utilization 90", "utilization", 0.92),
        ("--gpu-memory-utilization nan", "utilization", 0.92),
        ("--enforce-eager -tp 2", "tp", 2),
        ("--host 127.0.0.1 -tp 2", "tp", 2),
    ],
)
def test_ways_to_write_it(line: str, name: str, value: object) -> None:
    assert getattr(parsed(line), name) == value


def test_the_cpu_engine() -> None:
    found = parsed("--max-num-seqs 4", VLLM_CPU_KVCACHE_SPACE="64")
    assert (found.device, found.kv_bytes) == ("cpu", 64 * GIB)
    assert parsed("", VLLM_CPU_KVCACHE_SPACE="x").kv_bytes is None
    over = parsed("--kv-cache-memory-bytes 1000", VLLM_CPU_KVCACHE_SPACE="2")
    assert over.kv_bytes == 2 * GIB, "the variable wins, as in the engine"
    gpu = parse_request([], {"VLLM_CPU_KVCACHE_SPACE": "2"}, device="gpu")
    assert (gpu.device, gpu.kv_bytes) == ("gpu", None)


def test_features_of_the_processor() -> None:
    env = {"VLLM_CPU_KVCACHE_SPACE": "1"}
    plain = parse_request([], env)
    assert (plain.ssm_dtype, plain.amx) == ("auto", False)
    able = parse_request([], env, cpu_flags=("avx512_bf16", "amx_tile"))
    assert (able.ssm_dtype, able.amx) == ("float32", True)
    said = parse_request(["--mamba-ssm-cache-dtype", "bfloat16"], env, cpu_flags=["avx512_bf16"])
    assert said.ssm_dtype == "bfloat16"


def test_generation_and_partition() -> None:
    assert parsed("", VLLM_USE_V1="0").generation == "v0"
    assert parse_request([], {"VLLM_USE_V1": "0"}, generation="v1").generation == "v1"
    assert parse_request([], all_layers_cached=True).all_layers_cached
    assert parsed("", VLLM_PP_LAYER_PARTITION="3,5").layer_partition == (3, 5)
    assert parsed("", VLLM_PP_LAYER_PARTITION="3,x").layer_partition is None


@pytest.mark.parametrize(
    ("version", "asked", "generation"),
    [
        ("0.6.3", None, "v0"),
        ("0.6.3+corex.3.2.3", None, "v0"),
        ("v0.7.4.dev12", None, "v0"),
        ("0.7.3", "1", "v1"),
        ("0.8.0", None, "v1"),
        ("0.10.2", "0", "v0"),
        ("0.11.0", "0", "v1"),
        ("0.32.0", None, "v1"),
        ("1.0", None, "v1"),
        ("dev", None, "v1"),
        ("dev", "0", "v0"),
        (None, "1", "v1"),
    ],
)
def test_generation_of_a_version(version: str | None, asked: str | None, generation: str) -> None:
    env = {} if asked is None else {"VLLM_USE_V1": asked}
    found = parse_request([], env, version=version)
    assert found.generation == generation
    assert found.utilization == (0.9 if generation == "v0" else 0.92)


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("", "none"),
        ("--enable-prefix-caching", "align"),
        ("--enable-prefix-caching --mamba-cache-mode none", "align"),
        ("--enable-prefix-caching --mamba-cache-mode all", "all"),
        ("--no-enable-prefix-caching --mamba-cache-mode align", "none"),
        ("--mamba-cache-mode align", "align"),
    ],
)
def test_how_states_are_kept(line: str, mode: str) -> None:
    assert parsed(line).state_mode == mode


_WORDS = st.one_of(
    st.sampled_from([
        "-tp", "--max-model-len", "--max-num-seqs=", "--gpu-memory-utilization", "--block-size",
        "--speculative-config", "--limit-mm-per-prompt", "--enable-prefix-caching", "-ep", "-1",
        "--kv-cache-memory-bytes", "--cpu-offload-gb", "inf", "1e999", "{", "[]", "²", "9" * 30,
    ]),
    st.text(max_size=8),
)  # fmt: skip


@given(st.lists(_WORDS, max_size=8), st.text(max_size=6))
def test_any_command_is_read(argv: list[str], space: str) -> None:
    found = parse_request(argv, {"VLLM_CPU_KVCACHE_SPACE": space, "VLLM_PP_LAYER_PARTITION": space})
    assert found.tp >= 1
    assert 0 < found.utilization <= 1
    assert found.offload_bytes >= 0

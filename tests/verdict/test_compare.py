from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verdict.cases import DATA
from tests.verdict.test_facts import V0, V1, facts
from tuner.verdict import Finding, read_log
from tuner.verdict.compare import compare, parse_argv
from tuner.verdict.facts import LogFacts

REAL = read_log(DATA / "logs" / "clean_stop.log").facts
ARGV = [
    "--model", "/models/tiny", "--served-model-name", "llm", "--max-model-len", "32768", "--max-num-seqs", "4",
    "--max-num-batched-tokens", "2048", "--enforce-eager", "--enable-prefix-caching",
    "--enable-prompt-tokens-details",
]  # fmt: skip
ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
CACHE = {
    "block_size": "640",
    "gpu_memory_utilization": "0.92",
    "enable_prefix_caching": "True",
    "cache_dtype": "auto",
}


def found(argv: str, text: str, env: dict[str, str] | None = None) -> list[tuple[str, str]]:
    return [(f.name, f.kind) for f in compare(argv.split(), env or {}, facts(text))]


def test_an_engine_that_runs_what_was_asked() -> None:
    assert compare(ARGV, ENV, REAL, CACHE) == []


def test_another_value_on_the_config_line() -> None:
    findings = compare([*ARGV, "--no-enable-prefix-caching", "--dtype", "half"], ENV, REAL, CACHE)
    by_name = {finding.name: finding for finding in findings}
    assert set(by_name) == {"enable_prefix_caching", "dtype"}
    assert (by_name["dtype"].asked, by_name["dtype"].found) == ("half", "torch.bfloat16")
    assert by_name["dtype"].proof.line is not None
    assert (by_name["enable_prefix_caching"].asked, by_name["enable_prefix_caching"].kind) == (
        "off",
        "differs",
    )


@pytest.mark.parametrize(
    ("argv", "config", "same"),
    [
        ("--dtype bfloat16", {"dtype": "torch.bfloat16"}, True),
        ("--dtype half", {"dtype": "torch.float16"}, True),
        ("--dtype auto", {"dtype": "torch.float16"}, True),
        ("--dtype float16", {"dtype": "torch.bfloat16"}, False),
        ("--max-model-len 32k", {"max_seq_len": "32000"}, True),
        ("--max-model-len 32K", {"max_seq_len": "32768"}, True),
        ("--max-model-len=32768", {"max_seq_len": "32768"}, True),
        ("--max-model-len -1", {"max_seq_len": "32768"}, True),
        ("--max-model-len 4096", {"max_seq_len": "32768"}, False),
        ("-tp 4", {"tensor_parallel_size": "4"}, True),
        ("-tp 4", {"tensor_parallel_size": "1"}, False),
        ("--enforce-eager", {"enforce_eager": "True"}, True),
        ("--no-enforce-eager", {"enforce_eager": "True"}, False),
        ("--enable-chunked-prefill", {"chunked_prefill_enabled": "False"}, False),
        ("--quantization awq", {"quantization": "'awq_marlin'"}, False),
        ("--seed 0", {"seed": "0"}, True),
        ("--kv-cache-dtype fp8", {"kv_cache_dtype": "fp8"}, True),
        ("--max-num-seqs 4", {"max_seq_len": "9"}, True),
    ],
)
def test_values_that_mean_the_same(argv: str, config: dict[str, str], *, same: bool) -> None:
    assert (compare(argv.split(), {}, LogFacts(config=config)) == []) is same


def test_another_value_in_the_metrics() -> None:
    (finding,) = compare(
        ["--gpu-memory-utilization", "0.9", "--block-size", "640"], {}, LogFacts(), CACHE
    )
    assert (finding.name, finding.found, finding.proof.line) == (
        "gpu_memory_utilization",
        "0.92",
        None,
    )


def test_prefix_caching_that_was_switched_off() -> None:
    names = found("--enable-prefix-caching --max-num-seqs 4", V0)
    assert ("enable_prefix_caching", "ignored") in names
    assert ("enable_prefix_caching", "differs") in names
    assert found("--no-enable-prefix-caching", V0) == []


@pytest.mark.parametrize(
    ("argv", "line", "ignored"),
    [
        (
            "--enforce-eager",
            "Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup.",
            False,
        ),
        (
            "--enable-chunked-prefill",
            "Chunked prefill is not supported for this model, it has been disabled.",
            True,
        ),
        ("--enable-chunked-prefill", "Disabling chunked prefill for pooling models.", True),
        ("--swap-space 4", "swap_space is ignored on this platform.", True),
        ("--kv-cache-dtype fp8", "kv_cache_dtype has been overridden to auto.", True),
        ("--num-lookahead-slots 2", "--num-lookahead-slots will be ignored.", True),
        ("--max-num-seqs 4", "Some other thing is ignored.", False),
        ("--seed 1", "The seed of the sampler is ignored.", False),
    ],
)
def test_remarks_on_flags(argv: str, line: str, *, ignored: bool) -> None:
    text = f"WARNING 03-19 06:27:21 [arg_utils.py:906] {line}"
    assert ([kind for _, kind in found(argv, text)] == ["ignored"]) is ignored


def test_a_variable_that_the_engine_does_not_know() -> None:
    text = "WARNING 07-01 09:38:56 [envs.py:2088] Unknown vLLM environment variable detected: VLLM_CACHE_DIR"
    assert found("", text, {"VLLM_CACHE_DIR": "/x", "VLLM_CACHE": "/y"}) == [
        ("VLLM_CACHE_DIR", "ignored")
    ]


def test_batched_tokens_and_kv_space() -> None:
    assert found("--max-num-batched-tokens 2048", V1) == [("max_num_batched_tokens", "differs")]
    assert found("--max-num-batched-tokens 8192", V1) == []
    assert [f.name for f in compare(ARGV, {"VLLM_CPU_KVCACHE_SPACE": "2"}, REAL)] == [
        "VLLM_CPU_KVCACHE_SPACE"
    ]
    # On a device the KV cache is not the host's space.
    assert found("", V1, {"VLLM_CPU_KVCACHE_SPACE": "2"}) == []


@pytest.mark.parametrize(
    ("asked", "lines", "kind"),
    [
        (
            "FLASH_ATTN",
            [
                "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER']."
            ],
            None,
        ),
        (
            "FLASHINFER",
            [
                "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER']."
            ],
            "fell_back",
        ),
        ("FLASH_ATTN", ["Using Flash Attention backend on V1 engine."], None),
        ("XFORMERS", ["Using XFormers backend."], None),
        (
            "XFORMERS",
            ["Using Flash Attention backend.", "Using TRITON Unquantized MoE backend"],
            "fell_back",
        ),
        ("FLASHINFER", ["Cannot use AttentionBackendEnum.FLASHINFER backend on CPU."], "fell_back"),
        ("FLASHINFER", [], "not_shown"),
        ("FLASHINFER", ["Using TRITON Unquantized MoE backend"], "not_shown"),
        ("auto", [], None),
    ],
)
@pytest.mark.parametrize("by_flag", [True, False])
def test_attention_backends(
    asked: str, lines: list[str], kind: str | None, *, by_flag: bool
) -> None:
    config = "INFO 09-29 00:29:03 [core.py:70] Initializing a V1 LLM engine (v0.16.1) with config: seed=0"
    text = "\n".join([config, *(f"INFO 09-29 00:29:04 [cuda.py:507] {line}" for line in lines)])
    argv = f"--attention-backend {asked}" if by_flag else ""
    env = {} if by_flag else {"VLLM_ATTENTION_BACKEND": asked}
    assert [k for _, k in found(argv, text, env)] == ([kind] if kind else [])


def test_a_log_that_was_not_read_says_nothing() -> None:
    assert (
        compare(["--attention-backend", "FLASHINFER"], {"ENGINEX_MOE_TINY_IMPL": "bmm"}, LogFacts())
        == []
    )


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        ({"ENGINEX_MOE_TINY_IMPL": "loop"}, None),
        ({"ENGINEX_MOE_TINY_IMPL": "bmm"}, "fell_back"),
        ({"ENGINEX_GDN_DECODE_IMPL": "fused"}, "not_shown"),
        ({"ENGINEX_GDN_DECODE_IMPL": "native"}, None),
        ({"ENGINEX_MOE_TINY_MAX": "4"}, None),
    ],
)
def test_markers_of_kernels(env: dict[str, str], kind: str | None) -> None:
    assert [k for _, k in found("", V1, env)] == ([kind] if kind else [])


def test_every_worker_must_show_the_kernel() -> None:
    one_fell = V1.replace(
        "(APIServer pid=1) INFO:     Application startup complete.",
        "[enginex] moe variant=loop effective=native reason=dtype rank=1 pid=4",
    )
    (finding,) = compare([], {"ENGINEX_MOE_TINY_IMPL": "loop"}, facts(one_fell))
    assert (finding.kind, finding.found) == ("fell_back", "native")


def test_no_secret_is_repeated() -> None:
    args = "INFO 09-29 00:28:54 [utils.py:253] non-default args: {'api_key': ['other'], 'hf_token': 'abc', 'port': 9}"
    assert compare(["--api-key", "hush", "--hf-token", "x", "--port", "8"], {}, facts(args)) == []


@pytest.mark.parametrize(
    ("argv", "flags"),
    [
        ("--a 1 --b", {"a": "1", "b": True}),
        ("--no-b --c-d=x=y", {"b": False, "c_d": "x=y"}),
        ("--names a b --x", {"names": "a b", "x": True}),
        ("model -tp 2", {"tensor_parallel_size": "2"}),
        ("--a 1 --a 2", {"a": "2"}),
        ("", {}),
    ],
)
def test_flags(argv: str, flags: dict[str, object]) -> None:
    assert parse_argv(argv.split()) == flags


@given(
    st.lists(st.text(max_size=12), max_size=12),
    st.dictionaries(st.text(max_size=12), st.text(max_size=12)),
)
def test_any_arguments_can_be_compared(argv: list[str], env: dict[str, str]) -> None:
    for finding in compare(argv, env, REAL, CACHE):
        assert isinstance(finding, Finding)
        assert finding.words

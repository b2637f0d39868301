from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verdict.cases import DATA
from tuner.verdict import read_log
from tuner.verdict.facts import LogFacts, split_top

GIB = 2**30
V0 = """
INFO 03-19 06:27:09 api_server.py:528] vLLM API server version 0.6.3.post1
INFO 03-19 06:27:09 api_server.py:529] args: Namespace(host='127.0.0.1', port=8000, model='/models/m', max_num_seqs=4, \
lora_modules=None, middleware=[], allowed_origins=['*', 'a,b'], \
dispatch_function=<function serve at 0x7f>, max_model_len=32768)
INFO 03-19 06:27:15 llm_engine.py:237] Initializing an LLM engine (v0.6.3.post1) with config: model='/models/m', \
speculative_config=None, dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=4, enforce_eager=False, \
kv_cache_dtype=auto, chunked_prefill_enabled=False, enable_prefix_caching=False, seed=0)
INFO 03-19 06:27:20 selector.py:115] Using XFormers backend.
(VllmWorkerProcess pid=80) INFO 03-19 06:27:20 selector.py:115] Using XFormers backend.
WARNING 03-19 06:27:21 arg_utils.py:906] \
--enable-prefix-caching is currently not supported for multimodal models and has been disabled.
INFO 03-19 06:35:16 model_runner.py:1067] Loading model weights took 15.3916 GB
(VllmWorkerProcess pid=80) INFO 03-19 06:35:16 model_runner.py:1067] Loading model weights took 16.2303 GB
INFO 03-19 06:35:49 distributed_gpu_executor.py:57] # GPU blocks: 2987, # CPU blocks: 4096
INFO 03-19 06:35:49 distributed_gpu_executor.py:61] Maximum concurrency for 32768 tokens per request: 1.46x
INFO 03-19 06:36:19 model_runner.py:1523] Graph capturing finished in 27 secs, took 0.31 GiB
INFO 03-19 06:36:20 corex_moe.py:339] Using CoreX fused MoE prefill operator
INFO:     Application startup complete.
"""
V1 = """
(APIServer pid=1) INFO 09-29 00:28:50 [__init__.py:216] Automatically detected platform cuda.
(APIServer pid=1) INFO 09-29 00:28:54 [utils.py:302]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.16.1rc1.dev265+gd106bf39f
(APIServer pid=1) INFO 09-29 00:28:54 [utils.py:253] non-default args: {'model': '/models/m', 'max_model_len': 4096, \
'compilation_config': {'mode': 3, 'x': [1, 2]}, 'served_model_name': ['llm', 'x']}
(APIServer pid=1) INFO 09-29 00:29:02 [config.py:1815] Using max model len 4096
(APIServer pid=1) INFO 09-29 00:29:02 [scheduler.py:1] Chunked prefill is enabled with max_num_batched_tokens=8192.
(EngineCore_DP0 pid=2) INFO 09-29 00:29:03 [core.py:70] \
Initializing a V1 LLM engine (v0.16.1) with config: model='/models/m', \
dtype=torch.float16, max_seq_len=4096, enable_prefix_caching=True, \
compilation_config={'mode': <CompilationMode.NONE: 0>, 'a': 1}
(Worker_TP0 pid=3) INFO 09-29 00:29:04 [cuda.py:507] \
Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].
(Worker_TP0 pid=3) INFO 09-29 00:29:15 [gpu_model_runner.py:2392] Model loading took 5.7916 GiB and 2.339718 seconds
(Worker_TP0 pid=3) INFO 09-29 00:29:31 [gpu_worker.py:298] Available KV cache memory: 15.31 GiB
(Worker_TP1 pid=4) INFO 09-29 00:29:31 [gpu_worker.py:298] Available KV cache memory: 15.02 GiB
(EngineCore_DP0 pid=2) INFO 09-29 00:29:31 [kv_cache_utils.py:868] GPU KV cache size: 1,850,827 tokens
(EngineCore_DP0 pid=2) INFO 09-29 00:29:31 [kv_cache_utils.py:868] \
Maximum concurrency for 4,096 tokens per request: 108.88x
(EngineCore_DP0 pid=2) INFO 09-29 00:29:32 [core.py:218] \
init engine (profile, create kv cache, warmup model) took 17.23 seconds
[enginex] moe variant=loop max_tokens=4 effective=loop layers=4 rank=0 pid=3
(APIServer pid=1) INFO:     Application startup complete.
"""


def facts(text: str) -> LogFacts:
    return read_log(text.strip().split("\n")).facts


def test_v0() -> None:
    found = facts(V0)
    assert (found.version, found.generation) == ("0.6.3.post1", "v0")
    assert found.args["max_num_seqs"] == 4
    assert found.args["allowed_origins"] == ["*", "a,b"]
    assert found.args["dispatch_function"] == "<function serve at 0x7f>"
    assert found.args["max_model_len"] == 32768
    assert found.config["enable_prefix_caching"] == "False"
    assert found.config["dtype"] == "torch.bfloat16"
    assert (found.max_model_len, found.gpu_blocks, found.cpu_blocks) == (32768, 2987, 4096)
    assert found.concurrency == 1.46
    assert found.weights_bytes == round(16.2303 * GIB)
    assert found.graph_bytes == round(0.31 * GIB)
    assert [remark.text for remark in found.backends] == [
        "Using XFormers backend.",
        "Using XFormers backend.",
        "Using CoreX fused MoE prefill operator",
    ]
    assert "has been disabled" in found.remarks[0].text


def test_v1() -> None:
    found = facts(V1)
    assert (found.version, found.generation, found.platform) == ("0.16.1", "v1", "cuda")
    assert found.args["compilation_config"] == {"mode": 3, "x": [1, 2]}
    assert found.args["served_model_name"] == ["llm", "x"]
    assert found.config["compilation_config"].startswith("{'mode': <CompilationMode.NONE: 0>")
    assert (found.kv_tokens, found.batched_tokens, found.max_model_len) == (1850827, 8192, 4096)
    assert found.kv_bytes == round(15.02 * GIB)
    assert found.weights_bytes == round(5.7916 * GIB)
    assert (found.concurrency, found.init_seconds) == (108.88, 17.23)
    assert found.markers[0].text.startswith("[enginex] moe variant=loop")
    assert found.config_line is not None
    assert "dtype=torch.float16" in V1.strip().split("\n")[found.config_line - 1]


def test_a_real_start() -> None:
    found = read_log(DATA / "logs" / "clean_stop.log").facts
    assert (found.version, found.generation) == ("0.32.0", "v1")
    assert found.args["max_num_seqs"] == 4
    assert found.config["enable_chunked_prefill"] == "True"
    assert (found.kv_tokens, found.kv_bytes, found.concurrency) == (1850827, GIB, 56.48)
    assert found.init_seconds == 2.93


def test_facts_are_those_of_the_last_start() -> None:
    again = (
        V1
        + "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
        + V0
    )
    assert facts(again).gpu_blocks == 2987
    assert facts(again).kv_tokens is None


def test_nothing_is_read_after_the_engine_is_up() -> None:
    spoof = "INFO:     Application startup complete.\nINFO 09-29 00:29:31 [x.py:1] GPU KV cache size: 7 tokens"
    assert facts(spoof).kv_tokens is None


@pytest.mark.parametrize(
    "text", ["", "a", "a,b", "f(1,2),'x,y',{'k': [1,2]}", '"unclosed, quote', ")),(("]
)
def test_splitting_loses_nothing(text: str) -> None:
    assert ",".join(split_top(text)) == text


@given(st.text(alphabet="a,()[]{}'\"\\ =<>"))
def test_splitting_any_text_loses_nothing(text: str) -> None:
    assert ",".join(split_top(text)) == text

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.flags import (
    ALIASES,
    LAUNCHERS,
    LOADS_CODE,
    env_loads_code,
    flag_loads_code,
    flag_name,
    names_secret,
    positive,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("--max-num-seqs", "--max-num-seqs"),
        ("--max_num_seqs", "--max-num-seqs"),
        ("max-num-seqs", "--max-num-seqs"),
        ("max_num_seqs", "--max-num-seqs"),
        ("-tp", "--tensor-parallel-size"),
        ("-q", "--quantization"),
        ("-cc", "--compilation-config"),
        ("--device-memory-utilization", "--gpu-memory-utilization"),
        ("--no-enable-prefix-caching", "--no-enable-prefix-caching"),
        ("--reasoning-parser", "--reasoning-parser"),
        ("--trust-remote-code", "--trust-remote-code"),
        ("--config-format", "--config-format"),
    ],
)
def test_a_flag_has_one_spelling(text: str, name: str) -> None:
    assert flag_name(text) == name
    assert flag_name(name) == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--host", "the launcher binds the server to 127.0.0.1"),
        ("port", "the launcher picks a free port"),
        ("--uds", "the launcher picks the address"),
        ("--model", "write it under engine: model"),
        ("--served_model_name", "write it under engine: served_name"),
        ("--api-key", "seen by every user of the machine"),
        ("--no-headless", "cannot be measured"),
        ("--trust-remote", "is read as --trust-remote-code by the server"),
        ("--tool-parser", "is read as --tool-parser-plugin by the server"),
        ("--mod", "is read as --model by the server"),
        ("--h", "is read as --host by the server"),
        ("--middle", "is read as --middleware by the server"),
        ("--compilation-config.level", "as its leaf"),
        ("-x", "write the long form"),
        ("--", "is not the name of a flag"),
        ("", "is not the name of a flag"),
        ("--a b", "write the name of the flag alone"),
        ("--a=b", "write the name of the flag alone"),
        ("--a\nb", "is not the name of a flag"),
    ],
)
def test_flags_that_a_search_space_cannot_set(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        flag_name(text)


def test_no_beginning_of_a_reserved_flag_gets_through() -> None:
    """An argument parser takes the beginning of a flag for the flag; so none may pass for another."""
    for reserved in (*LAUNCHERS, *LOADS_CODE):
        for end in range(3, len(reserved)):
            part = reserved[:end].rstrip("-")
            if part in {"--", "--reasoning-parser", *LOADS_CODE}:
                continue
            with pytest.raises(ValueError, match=r"is read as|cannot be set|not the name"):
                flag_name(part)


@given(st.text(max_size=30))
def test_what_passes_is_one_plain_argument(text: str) -> None:
    try:
        name = flag_name(text)
    except ValueError:
        return
    assert name.startswith("--")
    assert name[2:].replace("-", "").isalnum()
    assert name.isascii()


def test_aliases_are_flags_that_may_be_set() -> None:
    assert {flag_name(alias) for alias in ALIASES} == set(ALIASES.values())


def test_the_opposite_of_a_flag_is_known() -> None:
    assert positive("--no-enable-prefix-caching") == "--enable-prefix-caching"
    assert positive("--enforce-eager") == "--enforce-eager"
    assert positive("--nnodes") == "--nnodes"


@pytest.mark.parametrize(
    ("flag", "value", "what"),
    [
        ("--middleware", "x.y", "--middleware"),
        ("--trust-remote-code", True, "--trust-remote-code"),
        ("--kv-transfer-config", {"kv_connector_module_path": "x"}, "kv_connector_module_path"),
        ("--kv-transfer-config", '{"kv_connector_module_path": "x"}', "kv_connector_module_path"),
        (
            "--kv-transfer-config",
            {"a": [{"kv-connector-module-path": 1}]},
            "kv-connector-module-path",
        ),
        ("--x-config", {"worker_cls": "x"}, "worker_cls"),
        (
            "--structured-outputs-config",
            {"reasoning_parser_plugin": "x"},
            "reasoning_parser_plugin",
        ),
        ("--compilation-config", {"inductor_passes": {}}, "inductor_passes"),
        ("--compilation-config", {"backend": "my.module.Backend"}, "backend"),
        ("--compilation-config", {"a.worker_cls": 1}, "a.worker_cls"),
        ("--distributed-executor-backend", "my.Executor", "the name of a class"),
        ("--x", ("a", '{"worker_cls": 1}'), "worker_cls"),
    ],
)
def test_flags_that_load_code_are_found(flag: str, value: Any, what: str) -> None:
    assert what in (flag_loads_code(flag, value) or "")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--max-num-seqs", 4),
        ("--no-trust-remote-code", True),
        ("--distributed-executor-backend", "mp"),
        ("--compilation-config", {"pass_config": {"fuse_norm": True}, "backend": "inductor"}),
        ("--kv-transfer-config", "{not json"),
        ("--kv-transfer-config", "{" * 5000),
        ("--x", None),
    ],
)
def test_harmless_flags_are_left_alone(flag: str, value: Any) -> None:
    assert flag_loads_code(flag, value) is None


def test_variables_that_load_code_are_known() -> None:
    for name in ("LD_PRELOAD", "PYTHONPATH", "VLLM_PLUGINS", "VLLM_SERVER_DEV_MODE"):
        assert env_loads_code(name)
    assert env_loads_code("DYLD_INSERT_LIBRARIES")
    assert not env_loads_code("OMP_NUM_THREADS")


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "X_API_KEY", "password", "APIKEY"]
)
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", ["HF_TOKEN_PATH", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "KEYS"])
def test_names_of_no_secrets(name: str) -> None:
    assert not names_secret(name)

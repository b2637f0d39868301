"""Flags and environment variables: one spelling for each, and which of them are not for a search space.

The names of vLLM's flags were read from the argument parser of 0.32; those of 0.6.3 that are gone
keep their place, since old stacks are tuned too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import AfterValidator, WithJsonSchema

STEP_FLAG: Final = "--enable-logging-iteration-details"
"""The flag with which vLLM logs a line for each step."""

STEP_RECORDS: Final = "ENGINEX_STEP_RECORDS"
"""The variable that names the file to which enginex writes a line for each step."""

ALIASES: Final[Mapping[str, str]] = {
    "-ac": "--attention-config",
    "-asc": "--api-server-count",
    "-cc": "--compilation-config",
    "-dc": "--diffusion-config",
    "-dcp": "--decode-context-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpa": "--data-parallel-address",
    "-dpb": "--data-parallel-backend",
    "-dpe": "--data-parallel-external-lb",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpl": "--data-parallel-size-local",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-dpn": "--data-parallel-rank",
    "-dpp": "--data-parallel-rpc-port",
    "-dpr": "--data-parallel-start-rank",
    "-ep": "--enable-expert-parallel",
    "-n": "--nnodes",
    "-O": "--optimization-level",
    "-pcp": "--prefill-context-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-q": "--quantization",
    "-r": "--node-rank",
    "-sc": "--speculative-config",
    "-tp": "--tensor-parallel-size",
    "--device-memory-utilization": "--gpu-memory-utilization",
}
"""Other spellings of a flag, and the one that is used."""

LAUNCHERS: Final[Mapping[str, str]] = {
    "--host": "the launcher binds the server to 127.0.0.1",
    "--port": "the launcher picks a free port",
    "--uds": "the launcher picks the address",
    "--root-path": "the load client asks at the root",
    "--model": "write it under engine: model",
    "--served-model-name": "write it under engine: served_name",
    "--headless": "without its HTTP server the engine cannot be measured",
    "--grpc": "the load client speaks HTTP",
    "--grpc-port": "the load client speaks HTTP",
    "--ssl-keyfile": "the load client speaks plain HTTP on 127.0.0.1",
    "--ssl-certfile": "the load client speaks plain HTTP on 127.0.0.1",
    "--ssl-ca-certs": "the load client speaks plain HTTP on 127.0.0.1",
    "--ssl-cert-reqs": "the load client speaks plain HTTP on 127.0.0.1",
    "--api-key": "an argument is seen by every user of the machine, and trials need no key",
    "--hf-token": "an argument is seen by every user of the machine; use env HF_TOKEN: {from_env: …}",
}
"""Flags that a search space cannot set, and why."""

LOADS_CODE: Final = frozenset(
    {
        "--allowed-local-media-path",
        "--config",
        "--ec-manager-config",
        "--io-processor-plugin",
        "--log-config-file",
        "--logging-config",
        "--logits-processors",
        "--middleware",
        "--model-class-overrides",
        "--reasoning-parser-plugin",
        "--scheduler-cls",
        "--tool-parser-plugin",
        "--tool-server",
        "--trust-remote-code",
        "--worker-cls",
        "--worker-extension-cls",
    }
)
"""Flags that make the server load code, or open files for its clients."""

_WHOLE_NAMES: Final = frozenset({"--reasoning-parser"})
"""Flags that are themselves, although they also begin the name of a flag above."""

_CLASS_VALUES: Final = frozenset({"--distributed-executor-backend"})
"""Flags whose value may be the dotted name of a class."""

_CODE_KEY: Final = re.compile(r".*(module_path|_cls|_class|_plugin|_fqcn)|inductor_passes")

ENV_LOADS_CODE: Final = frozenset(
    {
        "BASH_ENV", "CC", "CUDA_INJECTION64_PATH", "CXX", "ENV", "GCONV_PATH", "HF_MODULES_CACHE",
        "HOME", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "NCCL_NET_PLUGIN",
        "NCCL_TUNER_PLUGIN", "OPENSSL_CONF", "PATH", "PYTHONBREAKPOINT", "PYTHONEXECUTABLE",
        "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONSTARTUP",
        "PYTHONUSERBASE", "PYTHONWARNINGS", "TORCH_EXTENSIONS_DIR",
        "VLLM_ALLOW_INSECURE_SERIALIZATION", "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
        "VLLM_LOGGING_CONFIG_PATH", "VLLM_PLUGINS", "VLLM_SERVER_DEV_MODE",
    }
)  # fmt: skip
"""Environment variables that make a process load code, or open the server to its clients."""

_SECRET_NAME: Final = re.compile(
    r"(?:.*_)?(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIALS?)", re.IGNORECASE
)
_NAME: Final = re.compile(r"--[A-Za-z][A-Za-z0-9-]*")


def flag_name(text: str) -> str:
    """The one spelling of a flag: two dashes, dashes for underscores, no short form.

    Args:
        text: ``--max-num-seqs``, ``max_num_seqs``, ``-tp`` …

    Raises:
        ValueError: When it is no flag's name, or one that a search space cannot set.
    """
    name = ALIASES.get(text)
    if name is None:
        if text.startswith("-") and not text.startswith("--"):
            raise ValueError(f"{text} is not a short flag that is known: write the long form")
        name = f"--{text.removeprefix('--').replace('_', '-')}"
        name = ALIASES.get(name, name)
    if "." in name:
        raise ValueError(f"{text}: write the flag, and the part behind the dot as its leaf")
    if "=" in name or " " in name:
        raise ValueError(
            f"{text!r}: write the name of the flag alone, and its value behind the colon"
        )
    if not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is not the name of a flag")
    if reason := LAUNCHERS.get(positive(name)):
        raise ValueError(f"{name} cannot be set here: {reason}")
    if whole := _abbreviated(name):
        raise ValueError(f"{name} is read as {whole} by the server: write the flag in full")
    return name


def positive(flag: str) -> str:
    """The flag that ``--no-x`` is the opposite of; any other flag as it is."""
    return f"--{flag[5:]}" if flag.startswith("--no-") else flag


def _abbreviated(name: str) -> str | None:
    """The reserved flag that a server's argument parser would take this name for."""
    if name in LOADS_CODE or name in _WHOLE_NAMES:
        return None
    return next(
        (whole for whole in (*LAUNCHERS, *sorted(LOADS_CODE)) if whole.startswith(name)), None
    )


def flag_loads_code(flag: str, value: Any) -> str | None:
    """What in a flag and its value loads code, if anything does.

    Args:
        flag: The flag's one spelling.
        value: Its value as the search space has it: a scalar, a list or a mapping.
    """
    if flag in LOADS_CODE:
        return flag
    texts = value if isinstance(value, tuple) else (value,)
    if flag in _CLASS_VALUES and any(isinstance(text, str) and "." in text for text in texts):
        return f"{flag} with the name of a class"
    key = next((key for text in texts for key in _code_keys(_as_json(text))), None)
    return f"{flag} with {key}" if key else None


def env_loads_code(name: str) -> bool:
    """Whether an environment variable makes a process load code, or opens the server."""
    return name in ENV_LOADS_CODE or name.startswith("DYLD_")


def names_secret(name: str) -> bool:
    """Whether an environment variable's name says that it holds a secret."""
    return _SECRET_NAME.fullmatch(name) is not None


def _as_json(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def _code_keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            plain = str(key).replace("-", "_").rpartition(".")[2]
            dotted = plain == "backend" and isinstance(item, str) and "." in item
            if dotted or _CODE_KEY.fullmatch(plain):
                yield str(key)
            yield from _code_keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _code_keys(item)


FlagName = Annotated[
    str,
    AfterValidator(flag_name),
    WithJsonSchema({"type": "string", "pattern": r"^-{0,2}[A-Za-z][A-Za-z0-9_-]*$"}),
]
"""The name of a server flag, in any of its spellings; kept in the one."""


def own_records(file: str | None, launch: str) -> PurePosixPath | None:
    """The file of an engine's step records within its trial's folder; None where it lies elsewhere.

    A process runs in its trial's folder, so a relative path is a file of the trial's own. One file
    for all trials does not tell them apart, and what lies in a container goes with it.
    """
    if not file or launch != "process":
        return None
    path = PurePosixPath(file)
    return None if path.is_absolute() or ".." in path.parts else path

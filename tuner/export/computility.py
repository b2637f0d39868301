"""``computility-run.yaml``: the file that the official platform deploys.

Three keys and no more: ``concurrency`` (an integer), ``command`` (argv, all strings, a flag and its
value apart) and ``env`` (names and values, all strings, so that no reader takes ``0`` for false).
The bytes depend on the deployment and on nothing else; where it came from stands in a file beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import yaml

from tuner.errors import TunerError

NAME = "computility-run.yaml"

DIAGNOSTIC = (
    "ENGINEX_PROFILE*",
    "ENGINEX_NUMERIC_WATCH*",
    "ENGINEX_STEP_RECORDS*",
    "BI100_PROFILE*",
    "BI100_*_TRACE",
    "BI100_*_DIAGNOSTICS",
    "BI100_EXECUTOR_STARTUP_DEBUG",
    "CUDA_LAUNCH_BLOCKING",
    "PYTHONFAULTHANDLER",
    "TORCH_SHOW_CPP_STACKTRACES",
    "VLLM_LOGGING_*",
    "VLLM_TRACE_FUNCTION",
    "TUNER_*",
)
"""Variables that help to look and never belong into what is deployed."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """The content of a ``computility-run.yaml``.

    Attributes:
        concurrency: Requests that the platform sends at once.
        command: The whole argv.
        env: Environment, in the order of the names.
    """

    concurrency: int
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]


def run_file(
    command: tuple[str, ...],
    env: dict[str, str],
    *,
    concurrency: int,
    drop: tuple[str, ...] = (),
) -> RunFile:
    """What to write for a deployment.

    Args:
        command: The whole argv as it is to be deployed.
        env: Its environment; diagnostic variables and those that match ``drop`` are left out.
        concurrency: Requests that the platform sends at once.
        drop: Further patterns of variables to leave out.
    """
    patterns = (*DIAGNOSTIC, *drop)
    kept = {n: v for n, v in env.items() if not any(fnmatchcase(n, p) for p in patterns)}
    return RunFile(concurrency, command, tuple(sorted(kept.items())))


def render(content: RunFile) -> bytes:
    """The file's bytes: UTF-8, LF, one form for one content."""
    data = {
        "concurrency": content.concurrency,
        "command": list(content.command),
        "env": [{"name": name, "value": value} for name, value in content.env],
    }
    text = yaml.safe_dump(
        data, sort_keys=False, allow_unicode=True, width=4096, default_flow_style=False
    )
    return text.encode()


def parse(raw: bytes) -> RunFile:
    """The content of a file that :func:`render` or a person wrote.

    Raises:
        TunerError: When it is not such a file.
    """
    data: Any = yaml.safe_load(raw)
    if not isinstance(data, dict) or set(data) != {"concurrency", "command", "env"}:
        raise TunerError("a computility-run.yaml has exactly the keys concurrency, command and env")
    if type(data["concurrency"]) is not int:
        raise TunerError("concurrency must be an integer")
    if not all(isinstance(word, str) for word in data["command"]):
        raise TunerError("every item of command must be a string: quote the numbers")
    env = tuple(sorted((item["name"], str(item["value"])) for item in data["env"]))
    return RunFile(data["concurrency"], tuple(data["command"]), env)

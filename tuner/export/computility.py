"""``computility-run.yaml``: the file that the official platform deploys.

Three keys and no more: ``concurrency`` (an integer), ``command`` (argv, all strings, a flag and its
value apart) and ``env`` (names and values, all strings, so that no reader takes ``0`` for false).
The bytes depend on the deployment and on nothing else; where it came from stands in a file beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from tuner.errors import TunerError
from tuner.export.served import deployed_env
from tuner.export.yamltext import dump

NAME = "computility-run.yaml"


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
    return RunFile(concurrency, command, tuple(deployed_env(env, drop).items()))


def render(content: RunFile) -> bytes:
    """The file's bytes: UTF-8, LF, one form for one content."""
    data = {
        "concurrency": content.concurrency,
        "command": list(content.command),
        "env": [{"name": name, "value": value} for name, value in content.env],
    }
    return dump(data).encode()


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

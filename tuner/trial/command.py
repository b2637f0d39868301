"""The command of a deployment's server, the same wherever it is started, shown or exported."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from tuner.spec.deployment import Deployment

PLACEHOLDERS = frozenset({"{python}", "{model}", "{port}"})
"""Words of a command that is only looked at, for what its start will tell."""


def server_command(server: Sequence[str], model: str, deployment: Deployment) -> tuple[str, ...]:
    """The whole command, but for the host and the port, which the launcher adds.

    Args:
        server: What starts the engine's server, before any flag.
        model: Where the model lies, as the server sees it.
        deployment: What is started.
    """
    named = ("--model", model, "--served-model-name", deployment.served_name)
    return (*server, *named, *deployment.argv)


def shell_line(
    command: Sequence[str], env: Mapping[str, str], secrets: Mapping[str, str] | None = None
) -> str:
    """A command as a shell takes it, with its variables in front; secrets by their names only.

    Args:
        command: The words.
        env: Variables with their values.
        secrets: Variables with the names of the variables to take them from.
    """
    words = [f"{name}={shlex.quote(value)}" for name, value in sorted(env.items())]
    words += [f'{name}="${source}"' for name, source in sorted((secrets or {}).items())]
    words += [word if word in PLACEHOLDERS else shlex.quote(word) for word in command]
    return " ".join(words)

"""What is deployed, whatever the format of the file that says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tuner.errors import UserError
from tuner.launch.base import ContainerPlan

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

SERVED_ON = 8000
"""The port that an exported deployment is reached by, where nobody says another."""


@dataclass(frozen=True, slots=True)
class Served:
    """A deployment, ready to be written down.

    Attributes:
        study: The study's name.
        trial: The trial's number.
        command: The whole command, but for host and port.
        env: Environment of the server, in the order of the names.
        secrets: Variables of the server, each with the name to take its value from.
        start_s: Seconds that its start may take.
        stop_s: Seconds that its end may take.
        memory: Bytes of host memory that it may use; None where it is not limited.
        container: What it needs as a container; None where it is a process of this machine.
        model: The model's folder on this machine.
        devices: How many accelerators it uses.
        resource: The name by which a Kubernetes device plugin offers them.
        files: Files that flags and variables point to, with their text.
    """

    study: str
    trial: int
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    secrets: tuple[tuple[str, str], ...] = ()
    start_s: float = 900.0
    stop_s: float = 60.0
    memory: int | None = None
    container: ContainerPlan | None = None
    model: str = ""
    devices: int = 0
    resource: str | None = None
    files: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """A name for services and containers: letters, digits and dashes, at most 60 of them."""
        return ("llm-" + re.sub(r"[^a-z0-9]+", "-", self.study.lower()))[:60].strip("-")

    @property
    def about(self) -> str:
        """Where it comes from, in a sentence."""
        return f"The server of trial {self.trial} of study {self.study}, written by tuner."

    def box(self, form: str) -> ContainerPlan:
        """What it needs as a container.

        Args:
            form: The form that needs one.

        Raises:
            UserError: When it is a process of this machine.
        """
        if self.container is None:
            raise UserError(
                f"{form} starts containers, and study {self.study} measured processes",
                mend="export it as shell or systemd, or search with launch: docker",
            )
        return self.container


def deployed_env(env: Mapping[str, str], drop: tuple[str, ...] = ()) -> dict[str, str]:
    """The variables of a deployment that are written down, in the order of the names.

    Args:
        env: Its environment; diagnostic variables are left out.
        drop: Further patterns of variables to leave out.
    """
    patterns = (*DIAGNOSTIC, *drop)
    return {
        name: value
        for name, value in sorted(env.items())
        if not any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def by_flag(command: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A command in pieces that stand on a line each: what comes before the flags, then each flag."""
    found: list[list[str]] = [[]]
    for word in command:
        if word.startswith("--"):
            found.append([])
        found[-1].append(word)
    return [tuple(piece) for piece in found if piece]

"""The kinds of launch there are."""

from __future__ import annotations

from tuner.launch.base import Launcher
from tuner.launch.docker import DockerLauncher
from tuner.launch.process import ProcessLauncher


def launchers() -> dict[str, Launcher]:
    """A launcher of each kind, by the word that a search space and the ledger have for it.

    None of them needs anything of the machine before it starts or recovers an engine.
    """
    return {"process": ProcessLauncher(), "docker": DockerLauncher()}

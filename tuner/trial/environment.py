"""The environment of an engine: a small base, what its recipe needs, what the trial asks."""

from __future__ import annotations

import os

from tuner.build import Engine
from tuner.errors import UserError
from tuner.paths import cache_dir
from tuner.spec.deployment import Deployment

BASE = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LD_LIBRARY_PATH", "XDG_CACHE_HOME")
"""What an engine inherits of the tuner's own environment, where it is set. Nothing else."""


def environment(recipe: dict[str, str], deployment: Deployment) -> dict[str, str]:
    """The variables that a deployment sets: the recipe's, then the trial's, which win."""
    return {**recipe, **dict(deployment.env)}


def compile_cache(engine: Engine) -> dict[str, str]:
    """Where torch keeps what it compiles while an engine serves, so that the next start finds it.

    Each start has a folder for temporary files of its own, which is where torch would keep it
    otherwise, and compile it again in front of the first request that needs it. Where an engine is
    deployed it stays from start to start, as here.
    """
    if engine.image is not None:
        return {}  # nothing of this machine is seen inside
    return {"TORCHINDUCTOR_CACHE_DIR": str(cache_dir() / "compiled" / engine.digest)}


def whole_environment(recipe: dict[str, str], deployment: Deployment) -> dict[str, str]:
    """The environment that the engine really gets.

    Secrets are taken from the tuner's own environment here, at the last moment, and go nowhere else.

    Raises:
        UserError: When a secret that the deployment names is not set.
    """
    base = {name: os.environ[name] for name in BASE if name in os.environ}
    return {**base, **environment(recipe, deployment), **secrets(deployment)}


def container_environment(
    recipe: dict[str, str], needs: dict[str, str], deployment: Deployment
) -> dict[str, str]:
    """The environment that an engine gets in a container, beyond what its image sets.

    Nothing of the tuner's own is inherited: its paths mean nothing inside. Secrets are taken from
    it all the same, at the last moment.

    Args:
        recipe: What serving needs.
        needs: What only containers of the recipe need.
        deployment: What the trial asks; it wins.

    Raises:
        UserError: When a secret that the deployment names is not set.
    """
    return {**needs, **environment(recipe, deployment), **secrets(deployment)}


def secrets(deployment: Deployment) -> dict[str, str]:
    """The secrets of a deployment with their values.

    Raises:
        UserError: When one of them is not set.
    """
    found = {}
    for name, source in deployment.secrets:
        if source not in os.environ:
            raise UserError(
                f"{name} is to be taken from ${source}, which is not set",
                mend=f"export {source} and try again",
            )
        found[name] = os.environ[source]
    return found

"""The environment of an engine: a small base, what its recipe needs, what the trial asks."""

from __future__ import annotations

import os

from tuner.spec.deployment import Deployment

BASE = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LD_LIBRARY_PATH", "XDG_CACHE_HOME")
"""What an engine inherits of the tuner's own environment, where it is set. Nothing else."""


def environment(recipe: dict[str, str], deployment: Deployment) -> dict[str, str]:
    """The variables that a deployment sets: the recipe's, then the trial's, which win."""
    return {**recipe, **dict(deployment.env)}


def whole_environment(recipe: dict[str, str], deployment: Deployment, secrets: dict[str, str]) -> dict[str, str]:
    """The environment that the engine really gets.

    Args:
        recipe: Variables of the engine's recipe.
        deployment: The deployment.
        secrets: Variable in the engine to variable of the tuner that holds its value. The value is
            taken here and goes nowhere else.
    """
    base = {name: os.environ[name] for name in BASE if name in os.environ}
    hidden = {name: os.environ[source] for name, source in secrets.items() if source in os.environ}
    return {**base, **environment(recipe, deployment), **hidden}

"""The door of this room: from a recipe to an engine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

from tuner import paths
from tuner.build.engine import Engine
from tuner.build.load import Recipe, load_recipe, recipe_names
from tuner.build.progress import Report, silent
from tuner.build.venv import build_venv, venv_digest
from tuner.errors import RecipeError

Launch = Literal["process", "docker"]


def build_engine(
    recipe: Recipe | str,
    *,
    cache: Path | None = None,
    progress: Report = silent,
    launch: Launch = "process",
    wheelhouse: Path | None = None,
) -> Engine:
    """The engine of a recipe: the one in the cache when it is there, or a new one.

    Args:
        recipe: The recipe, or its name.
        cache: The user's cache; ``tuner.paths.cache_dir()`` by default.
        progress: Hears of each step; what it raises ends the build.
        launch: How the engine will be started: as a process, or in a container.
        wheelhouse: Folder with every wheel that the recipe needs, used instead of any index;
            ``$TUNER_WHEELHOUSE`` by default.

    Raises:
        RecipeError: When the recipe cannot be accepted, or has no base for this way to launch.
        NoSpaceLeft: When the disk is too full.
        BuildFailed: When a step or a check fails; nothing but the log is left.
    """
    found = load_recipe(recipe) if isinstance(recipe, str) else recipe
    where = (cache or paths.cache_dir()).absolute()
    wheels = wheelhouse or _env_folder("TUNER_WHEELHOUSE")
    base = found.spec.base
    if launch == "process" and base.venv is not None:
        return build_venv(found, base.venv, cache=where, report=progress, wheelhouse=wheels)
    raise RecipeError(
        f"recipe {found.name} has no base for launch: {launch}", file=found.folder / "recipe.yaml"
    )


def current_digests() -> frozenset[str]:
    """Digests of the engines that the recipes which come with tuner would build now, on this machine."""
    found = set()
    for name in recipe_names():
        recipe = load_recipe(name)
        if (base := recipe.spec.base.venv) is not None:
            with contextlib.suppress(RecipeError):  # no interpreter for it here: no engine either
                found.add(venv_digest(recipe, base))
    return frozenset(found)


def _env_folder(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value).expanduser().resolve() if value else None

"""The door of this room: from a recipe to an engine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

from tuner import paths
from tuner.build.engine import Engine
from tuner.build.existing import use_image, use_interpreter
from tuner.build.image import build_image, image_digest
from tuner.build.load import Recipe, load_recipe, recipe_names
from tuner.build.progress import Report, silent
from tuner.build.venv import build_venv, venv_digest
from tuner.errors import RecipeError, UserError

Launch = Literal["process", "docker"]


def build_engine(
    recipe: Recipe | str,
    *,
    cache: Path | None = None,
    progress: Report = silent,
    launch: Launch | str = "process",
    wheelhouse: Path | None = None,
    image: str | None = None,
) -> Engine:
    """The engine of a recipe: the one in the cache when it is there, or a new one.

    A base image other than the recipe's may be named in ``$TUNER_BASE_IMAGE``.

    Args:
        recipe: The recipe, or its name.
        cache: The user's cache; ``tuner.paths.cache_dir()`` by default.
        progress: Hears of each step; what it raises ends the build.
        launch: How the engine will be started: as a process, or in a container.
        wheelhouse: Folder with every wheel that the recipe needs, used instead of any index;
            ``$TUNER_WHEELHOUSE`` by default.
        image: With ``docker``, the image in place of the recipe's own: the one that is the engine, or
            the one that it is built on.

    Raises:
        RecipeError: When the recipe cannot be accepted, or has no base for this way to launch.
        UserError: When something that it builds on is not to be had.
        NoSpaceLeft: When the disk is too full.
        BuildFailed: When a step or a check fails; nothing but the log is left.
    """
    found = load_recipe(recipe) if isinstance(recipe, str) else recipe
    where = (cache or paths.cache_dir()).absolute()
    wheels = wheelhouse or _env_folder("TUNER_WHEELHOUSE")
    base = found.spec.base
    if base.existing is not None:
        if launch == "docker":
            return use_image(found, base.existing, cache=where, report=progress, image=image)
        return use_interpreter(found, base.existing, cache=where, report=progress)
    if launch == "process" and base.venv is not None:
        return build_venv(found, base.venv, cache=where, report=progress, wheelhouse=wheels)
    if launch == "docker" and base.image is not None:
        return build_image(
            found,
            base.image,
            cache=where,
            report=progress,
            wheelhouse=wheels,
            base_image=image or _base_image(),
        )
    raise no_base(found, launch)


def no_base(recipe: Recipe, launch: Launch | str) -> RecipeError:
    """The error of a recipe that has no base for a way to launch."""
    other = "docker" if launch == "process" else "process"
    return RecipeError(
        f"recipe {recipe.name} cannot be launched as {launch}",
        file=recipe.folder / "recipe.yaml",
        mend=f"use launch: {other}, or add a base for it to a recipe of your own",
    )


def default_launch(recipe: Recipe) -> Launch:
    """How a recipe's engine is started where nobody says: as a process, if it can be."""
    base = recipe.spec.base
    return "process" if base.venv is not None or base.existing is not None else "docker"


def current_digests() -> frozenset[str]:
    """Digests of what the recipes that come with tuner would build now, on this machine.

    What has no interpreter or base image here has no engine here either.
    """
    found = set()
    for name in recipe_names():
        recipe = load_recipe(name)
        base = recipe.spec.base
        with contextlib.suppress(UserError):
            if base.venv is not None:
                found.add(venv_digest(recipe, base.venv))
        with contextlib.suppress(UserError):
            ref = _base_image() or (base.image.ref if base.image is not None else None)
            if ref is not None and (digest := image_digest(recipe, ref)) is not None:
                found.add(digest)
    return frozenset(found)


def _base_image() -> str | None:
    return os.environ.get("TUNER_BASE_IMAGE") or None


def _env_folder(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value).expanduser().resolve() if value else None

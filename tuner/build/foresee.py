"""What can be said of an engine before it is built: how its server will be started, and where it will lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner import paths
from tuner.build import cache as store
from tuner.build.build import Launch, no_base
from tuner.build.engine import read_manifest
from tuner.build.existing import interpreter_of
from tuner.build.image import python_inside
from tuner.build.load import Recipe
from tuner.build.venv import interpreter_in, venv_digest
from tuner.errors import RecipeError

PYTHON = "{python}"
"""Stands for an interpreter that only the machine that the engine is built on knows."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """An engine, as far as its recipe and this machine tell.

    Attributes:
        server: The command that will start its server, before any flag.
        env: Environment variables that its serving needs.
        digest: Its key; None where only looking into an image or an interpreter tells.
        built: Whether it lies in the cache, finished.
    """

    server: tuple[str, ...]
    env: dict[str, str]
    digest: str | None
    built: bool


def foresee(recipe: Recipe, *, launch: Launch, cache: Path | None = None) -> Foreseen:
    """What is known of a recipe's engine before it is built.

    Args:
        recipe: The recipe.
        launch: How the engine will be started.
        cache: The user's cache; ``tuner.paths.cache_dir()`` by default.

    Raises:
        RecipeError: When the recipe has no base for this way to launch.
    """
    where = (cache or paths.cache_dir()).absolute()
    python, digest = _interpreter(recipe, launch, where)
    root = None if digest is None else store.engine_root(where, recipe.name, digest)
    env = dict(recipe.spec.env)
    if launch == "docker":
        env = {**recipe.spec.container.env, **env}
    return Foreseen(
        server=tuple(word.replace(PYTHON, python) for word in recipe.spec.server),
        env=env,
        digest=digest,
        built=root is not None and read_manifest(root) is not None,
    )


def _interpreter(recipe: Recipe, launch: Launch, cache: Path) -> tuple[str, str | None]:
    """The interpreter, and the engine's key where it is known."""
    base = recipe.spec.base
    if base.existing is not None:
        own = base.existing
        return (own.image_python if launch == "docker" else str(interpreter_of(own))), None
    if launch == "docker" and base.image is not None:
        return python_inside(base.image), None
    if launch == "process" and base.venv is not None:
        try:
            digest = venv_digest(recipe, base.venv)
        except RecipeError:
            return PYTHON, None  # this machine cannot build it; another may
        return str(interpreter_in(store.engine_root(cache, recipe.name, digest))), digest
    raise no_base(recipe, launch)

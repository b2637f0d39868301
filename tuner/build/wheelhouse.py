"""Fills a folder with every wheel that a recipe's steps install, for machines that reach no index."""

from __future__ import annotations

import os
from pathlib import Path

from tuner.build import cache as store
from tuner.build.failure import failed
from tuner.build.inside.wheels import missing
from tuner.build.load import Recipe
from tuner.build.process import build_env, run_logged
from tuner.build.progress import Progress, Report, silent
from tuner.build.steps import PipStep
from tuner.build.venv import find_interpreter
from tuner.errors import RecipeError

_TIMEOUT_S = 3600.0


def fill_wheelhouse(
    recipe: Recipe, folder: Path, *, cache: Path, progress: Report = silent
) -> tuple[Path, ...]:
    """Download what the lock files of a recipe name; what is there already is not asked for again.

    Args:
        recipe: The recipe; it must have a ``venv`` base, whose interpreter decides which wheels fit.
        folder: Where the wheels go; it is made when missing.
        cache: The user's cache, for the log.
        progress: Hears of each lock file.

    Returns:
        Every wheel in the folder.

    Raises:
        RecipeError: When the recipe has no ``venv`` base.
        BuildFailed: When a wheel cannot be had.
    """
    if recipe.spec.base.venv is None:
        raise RecipeError(
            f"recipe {recipe.name} has no venv base, so it does not say which Python its wheels are for"
        )
    python, _ = find_interpreter(recipe.spec.base.venv, recipe)
    store.prepare(cache)
    folder.mkdir(parents=True, exist_ok=True)
    log = store.new_log(cache, f"wheels-{recipe.name}")
    steps = [step for step in recipe.spec.steps if isinstance(step, PipStep)]
    locked = [step for step in steps if step.requirements is not None]
    for number, step in enumerate(locked, 1):
        if not missing(recipe.folder / str(step.requirements), folder):
            continue

        def hear(line: str, name: str = step.name, number: int = number) -> None:
            progress(Progress(name, number, len(locked), line))

        status = run_logged(
            [str(python), "-m", "pip", *_download(recipe, step, folder)],
            log=log,
            env=build_env(),
            cwd=folder,
            timeout_s=_TIMEOUT_S,
            report=hear,
        )
        if status != 0:
            raise failed(f"wheels of {step.name}", log)
    return tuple(sorted(folder.glob("*.whl")))


def _download(recipe: Recipe, step: PipStep, folder: Path) -> list[str]:
    words = [
        "download",
        "--no-input",
        "--progress-bar",
        "off",
        "--only-binary",
        ":all:",
        "--no-deps",
    ]
    if step.index_env and os.environ.get(step.index_env):
        words += ["--extra-index-url", os.environ[step.index_env]]
    return [
        *words,
        "--dest",
        str(folder),
        "--requirement",
        str(recipe.folder / str(step.requirements)),
    ]

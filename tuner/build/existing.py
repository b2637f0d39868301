"""Takes an engine that the user already has: an interpreter of this machine, or an image."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tuner.build import cache as store
from tuner.build.digest import engine_digest
from tuner.build.dockercli import inspect, require_daemon, require_image
from tuner.build.engine import Engine
from tuner.build.interior import ask, fingerprint_of, probe_image, probe_interpreter
from tuner.build.keyed import Site, once
from tuner.build.layout import IMAGE_ROOT, PLAN, lay_out
from tuner.build.load import Recipe
from tuner.build.progress import Report
from tuner.build.recipe import ExistingBase
from tuner.build.verify import require, results_of
from tuner.errors import UserError

_DISK = 16 * 2**20


def use_interpreter(
    recipe: Recipe, base: ExistingBase, *, cache: Path, report: Report, python: Path | None = None
) -> Engine:
    """The engine of an interpreter that is there: nothing is installed, it is fingerprinted and checked.

    Args:
        recipe: The recipe.
        base: What it says of existing engines.
        cache: The user's cache.
        report: Hears of the checks.
        python: The interpreter; by default the recipe's, ``$TUNER_ENGINE_PYTHON``, or tuner's own.

    Raises:
        UserError: When there is no such interpreter, or it does not run.
        BuildFailed: When a check fails.
    """
    path = interpreter_of(base, python)
    if not os.access(path, os.X_OK):
        raise UserError(
            f"{path} is not an interpreter that can be run", mend="name one in TUNER_ENGINE_PYTHON"
        )
    found = _probed(lambda: probe_interpreter(path, recipe.spec.env), str(path))
    return _take(recipe, found, cache=cache, report=report, python=path, image=None)


def interpreter_of(base: ExistingBase, python: Path | None = None) -> Path:
    """The interpreter that a recipe of an existing engine means on this machine.

    Args:
        base: What the recipe says of existing engines.
        python: Another one, which wins.
    """
    named = python or base.python or os.environ.get("TUNER_ENGINE_PYTHON") or sys.executable
    # An environment is known by the path of its interpreter, which is a link that must not be followed.
    return Path(named).expanduser().absolute()


def use_image(
    recipe: Recipe, base: ExistingBase, *, cache: Path, report: Report, image: str | None = None
) -> Engine:
    """The engine of an image that is there, or of a container's image.

    Args:
        recipe: The recipe.
        base: What it says of existing engines.
        cache: The user's cache.
        report: Hears of the checks.
        image: The image or container; by default the recipe's, or ``$TUNER_ENGINE_IMAGE``.

    Raises:
        UserError: When no image is named, or it is not to be had.
        BuildFailed: When a check fails.
    """
    named = image or base.image or os.environ.get("TUNER_ENGINE_IMAGE")
    if not named:
        raise UserError(
            f"recipe {recipe.name} needs an image to run in a container",
            mend="name it in TUNER_ENGINE_IMAGE, or as base.existing.image of your own recipe",
        )
    require_daemon()
    container = inspect("container", named)
    identity = str(container["Image"]) if container is not None else require_image(named)
    found = _probed(lambda: probe_image(identity, base.image_python, recipe.spec.env), named)
    python = Path(base.image_python)
    return _take(recipe, found, cache=cache, report=report, python=python, image=identity)


def _probed(probe: Any, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = probe()
    except (ValueError, OSError) as error:
        raise UserError(f"the interpreter of {name} does not run: {error}") from error
    return found


def _take(
    recipe: Recipe,
    found: dict[str, Any],
    *,
    cache: Path,
    report: Report,
    python: Path,
    image: str | None,
) -> Engine:
    """The engine of what a probe found; a changed package makes it another engine."""
    packages = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    digest = engine_digest(
        recipe.files_digest, kind="existing", base=f"{image or python}\0{packages}"
    )

    def make(site: Site) -> Engine:
        site.root.mkdir()
        lay_out(recipe, site.root, root=str(site.root) if image is None else IMAGE_ROOT)
        engine = Engine(
            recipe=recipe.name,
            digest=digest,
            kind="existing",
            root=site.root,
            python=python,
            server=tuple(word.replace("{python}", str(python)) for word in recipe.spec.server),
            env=tuple(sorted(recipe.spec.env.items())),
            fingerprint=fingerprint_of(found, image=image),
            image=image,
            container=recipe.spec.container,
            kv_cache=recipe.spec.kv_cache,
        )
        site.log.touch()
        require(results_of(ask(engine, "check", PLAN, "build"), recipe), log=site.log)
        return engine

    return once(
        store.engine_root(cache, recipe.name, digest),
        cache=cache,
        steps=("checks",),
        space=store.Space(_DISK, cache),
        report=report,
        make=make,
    )

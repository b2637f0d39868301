"""Packages beside an engine, such as its tests' tools: in a folder of their own, never in the engine."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from tuner.build import cache as store
from tuner.build.engine import Engine
from tuner.build.failure import failed
from tuner.build.load import Recipe
from tuner.build.lock import build_lock
from tuner.build.process import build_env, run_logged
from tuner.build.progress import Progress, Report, silent
from tuner.errors import UserError

_TIMEOUT_S = 1800.0


def extra_packages(engine: Engine, recipe: Recipe, name: str, *, progress: Report = silent) -> Path:
    """A folder with the packages of one of a recipe's ``extras``, for the engine's PYTHONPATH.

    Args:
        engine: An engine that runs on this machine.
        recipe: Its recipe.
        name: The extra, as ``tests``.
        progress: Hears of the installing; what it raises ends it.

    Raises:
        UserError: When the recipe has no such extra, or the engine is an image.
        BuildFailed: When a package cannot be installed.
    """
    if name not in recipe.spec.extras:
        known = ", ".join(sorted(recipe.spec.extras)) or "none"
        raise UserError(f"recipe {recipe.name} has no extra {name!r}", mend=f"known are {known}")
    if engine.image is not None:
        raise UserError(f"the engine {engine.recipe} is an image: nothing can be put beside it")
    lock_file = recipe.folder / recipe.spec.extras[name]
    digest = hashlib.sha256(lock_file.read_bytes()).hexdigest()[:8]
    out = engine.root / f"extra-{name}-{digest}"
    if out.is_dir():
        return out
    cache = engine.root.parent.parent
    store.prepare(cache)

    def waiting(holder: str) -> None:
        progress(Progress("waiting", 0, 1, f"{holder} works on {engine.root.name}"))

    with build_lock(store.lock_path(engine.root), waiting=waiting) as handle:
        for dead in engine.root.glob(f".{out.name}.*"):
            shutil.rmtree(dead)
        if out.is_dir():
            return out
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=engine.root))
        log = store.new_log(cache, f"{engine.root.name}-{name}")
        status = run_logged(
            [str(engine.python), *_install(lock_file, work)],
            log=log,
            env=build_env(),
            cwd=engine.root,
            timeout_s=_TIMEOUT_S,
            report=lambda line: progress(Progress(f"extra {name}", 1, 1, line)),
            keep=(handle,),
        )
        if status != 0:
            shutil.rmtree(work)
            raise failed(f"extra {name}", log)
        work.rename(out)
    return out


def _install(lock_file: Path, target: Path) -> list[str]:
    words = ["-m", "pip", "install", "--no-input", "--progress-bar", "off", "--no-deps"]
    return [
        *words,
        "--only-binary",
        ":all:",
        "--target",
        str(target),
        "--requirement",
        str(lock_file),
    ]

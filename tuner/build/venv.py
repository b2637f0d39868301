"""Builds an engine as a virtual environment in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tuner.build import cache as store
from tuner.build.digest import engine_digest, platform_tag
from tuner.build.engine import Engine
from tuner.build.interior import fingerprint_of, probe_interpreter, read_result
from tuner.build.keyed import Site, once
from tuner.build.layout import INSIDE, PLAN, lay_out
from tuner.build.load import Recipe
from tuner.build.process import build_env
from tuner.build.progress import Report
from tuner.build.recipe import VenvBase
from tuner.build.steps import PipStep, RunStep
from tuner.build.verify import require, results_of
from tuner.errors import RecipeError
from tuner.quantity import parse_bytes

_PIP_TIMEOUT_S = 3600.0
_VENV_TIMEOUT_S = 300.0
_TAG_CODE = "import sys,platform; print(f'{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}')"


def build_venv(
    recipe: Recipe, base: VenvBase, *, cache: Path, report: Report, wheelhouse: Path | None = None
) -> Engine:
    """The engine of a recipe as a virtual environment: the one in the cache, or a new one.

    Raises:
        RecipeError: When this machine has no interpreter that the recipe is good for.
        NoSpaceLeft: When the disk is, or becomes, too full.
        BuildFailed: When a step or a check fails. Nothing but the log is left.
        UserError: When the cache cannot be written.
    """
    interpreter, tag = find_interpreter(base, recipe)
    digest = _digest(recipe, tag)

    def make(site: Site) -> Engine:
        return _build(recipe, digest, site, interpreter, wheelhouse)

    return once(
        store.engine_root(cache, recipe.name, digest),
        cache=cache,
        steps=("environment", *(step.name for step in recipe.spec.steps), "checks"),
        space=store.Space(parse_bytes(base.disk), cache),
        report=report,
        make=make,
    )


def venv_digest(recipe: Recipe, base: VenvBase) -> str:
    """The key that this recipe's environment has on this machine."""
    return _digest(recipe, find_interpreter(base, recipe)[1])


def interpreter_in(root: Path) -> Path:
    """The interpreter of an engine's environment, by the engine's folder."""
    return root / "venv" / "bin" / "python"


def _digest(recipe: Recipe, tag: str) -> str:
    """The key; a program that a step only uses where it is there makes another engine."""
    wanted = {step.needs_program for step in recipe.spec.steps if isinstance(step, RunStep)} - {
        None
    }
    there = [name for name in sorted(filter(None, wanted)) if shutil.which(name) is not None]
    return engine_digest(recipe.files_digest, kind="venv", base=" ".join([tag, *there]))


def find_interpreter(base: VenvBase, recipe: Recipe) -> tuple[Path, str]:
    """The interpreter that an environment is made from, and its platform tag.

    This program's own comes first, since it costs nothing to ask; then those on the PATH.

    Raises:
        RecipeError: When this machine has none that the recipe is good for.
    """
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if own in base.pythons:
        return Path(getattr(sys, "_base_executable", sys.executable)), platform_tag()
    for version in base.pythons:
        found = shutil.which(f"python{version}")
        if found is None:
            continue
        asked = subprocess.run(
            [found, "-I", "-c", _TAG_CODE],
            capture_output=True,
            text=True,
            env=build_env(),
            check=False,
        )
        if asked.returncode == 0:
            return Path(found), asked.stdout.strip()
    raise RecipeError(
        f"recipe {recipe.name} needs Python {' or '.join(base.pythons)}, and this machine has none of them",
        mend=f"install one (on Debian: apt-get install python{base.pythons[0]}-venv) or use it for tuner itself",
    )


def _build(
    recipe: Recipe, digest: str, site: Site, interpreter: Path, wheelhouse: Path | None
) -> Engine:
    began = time.monotonic()
    spec, root = recipe.spec, site.root
    (root / "tmp").mkdir(parents=True)
    wheels = None if wheelhouse is None else str(wheelhouse)
    lay_out(recipe, root, root=str(root), wheelhouse=wheels)
    python = interpreter_in(root)
    env = _env(spec.env, root)
    has_pip = any(isinstance(step, PipStep) for step in spec.steps)
    make = [str(interpreter), "-I", "-m", "venv", *([] if has_pip else ["--without-pip"])]
    site.run(0, [*make, str(root / "venv")], env=env, timeout_s=_VENV_TIMEOUT_S)
    for number, step in enumerate(spec.steps, 1):
        timeout = float(step.timeout_s) if isinstance(step, RunStep) else _PIP_TIMEOUT_S
        command = [str(python), "-m", INSIDE, "apply", PLAN, str(number - 1)]
        site.run(number, command, env=env, timeout_s=timeout)
    command = [str(python), "-m", INSIDE, "check", PLAN, "build"]
    output = site.run(len(site.steps) - 1, command, env=env, timeout_s=_PIP_TIMEOUT_S)
    require(results_of(read_result(output), recipe), log=site.log)
    shutil.rmtree(root / "tmp", ignore_errors=True)
    return Engine(
        recipe=recipe.name,
        digest=digest,
        kind="venv",
        root=root,
        python=python,
        server=tuple(word.replace("{python}", str(python)) for word in spec.server),
        env=tuple(sorted(spec.env.items())),
        fingerprint=fingerprint_of(probe_interpreter(python, spec.env)),
        container=spec.container,
        kv_cache=spec.kv_cache,
        built_in_s=round(time.monotonic() - began, 1),
        size=store.size_of(root),
    )


def _env(declared: Mapping[str, str], root: Path) -> dict[str, str]:
    """The engine's own variables are there, and temporary files stay in the engine's folder."""
    named = {name: value for name, value in os.environ.items() if name.startswith("TUNER_")}
    return build_env({**named, **declared, "TMPDIR": str(root / "tmp")})

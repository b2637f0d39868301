"""Builds an engine as a virtual environment in the user's cache."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.build import cache as store
from tuner.build.digest import engine_digest, named_files, platform_tag
from tuner.build.engine import Engine, read_manifest, write_manifest
from tuner.build.failure import failed
from tuner.build.load import Recipe
from tuner.build.lock import build_lock
from tuner.build.process import build_env, run_logged
from tuner.build.progress import Progress, Report
from tuner.build.recipe import PipStep, RunStep, VenvBase
from tuner.build.verify import INSIDE, fingerprint, plan_for, require_checks
from tuner.errors import NoSpaceLeft, RecipeError
from tuner.quantity import parse_bytes

_PIP_TIMEOUT_S = 3600.0
_VENV_TIMEOUT_S = 300.0
_TAG_CODE = "import sys,platform; print(f'{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}')"


@dataclass(frozen=True, slots=True)
class _Build:
    """A build in hand."""

    recipe: Recipe
    digest: str
    root: Path
    log: Path
    lock: int
    report: Report
    wheelhouse: Path | None

    @property
    def python(self) -> Path:
        return self.root / "venv" / "bin" / "python"

    @property
    def steps(self) -> tuple[str, ...]:
        return ("environment", *(step.name for step in self.recipe.spec.steps), "checks")


def build_venv(
    recipe: Recipe, base: VenvBase, *, cache: Path, report: Report, wheelhouse: Path | None = None
) -> Engine:
    """The engine of a recipe as a virtual environment: the one in the cache, or a new one.

    Raises:
        NoSpaceLeft: When the disk is, or becomes, too full.
        BuildFailed: When a step or a check fails. Nothing but the log is left.
        UserError: When the cache cannot be written.
    """
    interpreter, tag = find_interpreter(base, recipe)
    digest = _digest(recipe, tag)
    root = store.engine_root(cache, recipe.name, digest)
    if (engine := read_manifest(root)) is not None:
        return engine
    store.prepare(cache)
    total = len(recipe.spec.steps) + 2

    def waiting(holder: str) -> None:
        report(Progress("waiting", 0, total, f"{holder} is building {root.name}"))

    with build_lock(store.lock_path(root), waiting=waiting) as handle:
        if (engine := read_manifest(root)) is not None:
            return engine
        store.sweep(cache, mine=root)
        store.require_space(cache, parse_bytes(base.disk))
        log = store.new_log(cache, root.name)
        build = _Build(recipe, digest, root, log, handle, report, wheelhouse)
        try:
            return _build(build, interpreter)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            raise NoSpaceLeft(
                f"the disk was full while {root.name} was built (log: {log})"
            ) from error
        finally:
            if read_manifest(root) is None and root.exists():
                store.remove(root)


def venv_digest(recipe: Recipe, base: VenvBase) -> str:
    """The key that this recipe's environment has on this machine."""
    return _digest(recipe, find_interpreter(base, recipe)[1])


def _digest(recipe: Recipe, tag: str) -> str:
    return engine_digest(recipe.files_digest, kind="venv", base=tag)


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


def _build(build: _Build, interpreter: Path) -> Engine:
    began = time.monotonic()
    _lay_out(build)
    without = (
        [] if any(isinstance(s, PipStep) for s in build.recipe.spec.steps) else ["--without-pip"]
    )
    make = [str(interpreter), "-I", "-m", "venv", *without, str(build.root / "venv")]
    _step(build, 0, make, _VENV_TIMEOUT_S)
    for number, step in enumerate(build.recipe.spec.steps, 1):
        timeout = float(step.timeout_s) if isinstance(step, RunStep) else _PIP_TIMEOUT_S
        _step(build, number, [*_inside(build), "apply", "plan.json", str(number - 1)], timeout)
    number = len(build.steps) - 1
    _step(build, number, [*_inside(build), "check", "plan.json"], _PIP_TIMEOUT_S)
    require_checks(build.log, build.recipe)
    shutil.rmtree(build.root / "tmp", ignore_errors=True)
    engine = Engine(
        recipe=build.recipe.name,
        digest=build.digest,
        kind="venv",
        root=build.root,
        python=build.python,
        server=tuple(
            word.replace("{python}", str(build.python)) for word in build.recipe.spec.server
        ),
        env=tuple(sorted(build.recipe.spec.env.items())),
        fingerprint=fingerprint([*_inside(build), "probe"], cwd=build.root),
        built_in_s=round(time.monotonic() - began, 1),
    )
    write_manifest(engine)
    return engine


def _inside(build: _Build) -> list[str]:
    return [str(build.python), "-m", INSIDE]


def _lay_out(build: _Build) -> None:
    """Put all that the steps use into the engine's own folder."""
    build.root.mkdir()
    (build.root / "tmp").mkdir()
    copy_tree(Path(__file__).parent / "inside", build.root / INSIDE)
    copy_tree(build.recipe.folder, build.root / "recipe", libraries=True)
    for name in build.recipe.sources:
        copy_tree(build.recipe.engine_dir / name, build.root / "sources" / name)
    plan = plan_for(build.recipe, root=str(build.root), wheelhouse=build.wheelhouse, when="build")
    (build.root / "plan.json").write_text(json.dumps(plan, indent=1), encoding="utf-8")


def copy_tree(source: Path, target: Path, *, libraries: bool = False) -> None:
    """Copy a source tree without what running or building it left there."""
    target.mkdir(parents=True)
    for name, path in named_files(source, libraries=libraries):
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
        to.chmod(0o755 if os.access(path, os.X_OK) else 0o644)


def _step(build: _Build, number: int, argv: list[str], timeout_s: float) -> None:
    """Run one step; the engine's own variables are there, and its temporary files stay in its folder."""
    name = build.steps[number]
    start = build.log.stat().st_size if build.log.exists() else 0
    build.report(Progress(name, number + 1, len(build.steps), ""))
    status = run_logged(
        argv,
        log=build.log,
        env=_env(build.recipe.spec.env, build.root),
        cwd=build.root,
        timeout_s=timeout_s,
        report=lambda line: build.report(Progress(name, number + 1, len(build.steps), line)),
        keep=(build.lock,),
    )
    if status != 0:
        raise failed(name, build.log, start=start)


def _env(declared: Mapping[str, str], root: Path) -> dict[str, str]:
    named = {name: value for name, value in os.environ.items() if name.startswith("TUNER_")}
    return build_env({**named, **declared, "TMPDIR": str(root / "tmp")})

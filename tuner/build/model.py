"""Models made on the spot by a script of ``engine/models/``, kept in the user's cache."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from tuner import paths
from tuner.build import cache as store
from tuner.build.digest import named_files
from tuner.build.dockercli import OneRun
from tuner.build.engine import Engine
from tuner.build.failure import failed
from tuner.build.lock import build_lock
from tuner.build.process import build_env, run_logged
from tuner.build.progress import Progress, Report, silent
from tuner.errors import UserError
from tuner.files import digest_files

_TIMEOUT_S = 600.0


def model_names(data_dir: Path | None = None) -> tuple[str, ...]:
    """Names of the models that can be made on the spot."""
    folder = (data_dir or paths.data_dir()) / "engine" / "models"
    return tuple(sorted(path.stem for path in folder.glob("*.py")))


def make_model(
    engine: Engine,
    name: str,
    *,
    seed: int = 0,
    options: Mapping[str, int | str] | None = None,
    cache: Path | None = None,
    data_dir: Path | None = None,
    progress: Report = silent,
) -> Path:
    """The folder of a model made by the engine's own interpreter; made once for each set of options.

    Args:
        engine: The engine that will serve it.
        name: Its maker, as ``tiny_hybrid`` (``-`` and ``_`` are the same here).
        seed: Seed of the random weights.
        options: Options of the maker, as ``{"experts": 64}``.
        cache: The user's cache.
        data_dir: The folder that holds ``engine/``.
        progress: Hears of the making; what it raises ends it.

    Raises:
        UserError: When there is no such maker.
        BuildFailed: When the maker fails; the error shows its last lines.
    """
    maker, arguments = _maker(name, data_dir), _arguments(seed, options)
    where = (cache or paths.cache_dir()).absolute()
    out = model_folder(
        name, engine.digest, seed=seed, options=options, cache=where, data_dir=data_dir
    )
    if out.is_dir():
        return out
    store.prepare(where)

    def waiting(holder: str) -> None:
        progress(Progress("waiting", 0, 1, f"{holder} is making {out.name}"))

    with build_lock(store.lock_path(out), waiting=waiting) as handle:
        for dead in out.parent.glob(f".{out.name}.*"):
            shutil.rmtree(dead)
        if not out.is_dir():
            _make(engine, maker, out, arguments, where, progress, handle)
    return out


def model_folder(
    name: str,
    engine_digest: str,
    *,
    seed: int = 0,
    options: Mapping[str, int | str] | None = None,
    cache: Path | None = None,
    data_dir: Path | None = None,
) -> Path:
    """Where a model that is made on the spot lies, or will lie.

    Args:
        name: Its maker.
        engine_digest: The key of the engine that will serve it.
        seed: Seed of the random weights.
        options: Options of the maker.
        cache: The user's cache.
        data_dir: The folder that holds ``engine/``.

    Raises:
        UserError: When there is no such maker.
    """
    maker = _maker(name, data_dir)
    files = digest_files(named_files(maker.parent))
    parts = [files, engine_digest, maker.stem, _arguments(seed, options)]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    where = (cache or paths.cache_dir()).absolute()
    return where / "models" / f"{maker.stem}-{digest[:12]}"


def _maker(name: str, data_dir: Path | None) -> Path:
    makers = (data_dir or paths.data_dir()) / "engine" / "models"
    maker = makers / f"{name.replace('-', '_')}.py"
    if not maker.is_file():
        known = ", ".join(model_names(data_dir))
        raise UserError(
            f"there is no model {name!r} that can be made here", mend=f"known are {known}"
        )
    return maker


def _arguments(seed: int, options: Mapping[str, int | str] | None) -> list[str]:
    further = [f"--{key}={value}" for key, value in sorted((options or {}).items())]
    return [f"--seed={seed}", *further]


def _make(
    engine: Engine,
    maker: Path,
    out: Path,
    arguments: list[str],
    cache: Path,
    progress: Report,
    lock: int,
) -> None:
    log = store.new_log(cache, out.name)
    run = (
        None if engine.image is None else _in_container(engine, engine.image, maker, out, arguments)
    )
    argv = run.command if run else [str(engine.python), str(maker), str(out), *arguments]
    try:
        status = run_logged(
            argv,
            log=log,
            env=build_env(dict(engine.env)),
            cwd=cache / "models",
            timeout_s=_TIMEOUT_S,
            report=lambda line: progress(Progress(f"model {maker.stem}", 1, 1, line)),
            keep=(lock,),
        )
    finally:
        if run is not None:
            run.remove()
    if status != 0 or not out.is_dir():
        raise failed(f"model {maker.stem}", log)


def _in_container(
    engine: Engine, image: str, maker: Path, out: Path, arguments: list[str]
) -> OneRun:
    """The same maker inside the engine's image, writing to the same folder of this machine."""
    return OneRun(
        image,
        [str(engine.python), f"/makers/{maker.name}", f"/models/{out.name}", *arguments],
        container=engine.container,
        mounts=[f"{maker.parent}:/makers:ro", f"{out.parent}:/models"],
        workdir="/models",
        env=[*engine.env, ("HOME", "/tmp")],  # noqa: S108 - inside the container, for the caches of libraries
    )

"""The user's cache of engines: where each lies, what is left of dead builds, what may be thrown away."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tuner.build.dockercli import docker, image_id
from tuner.build.engine import MANIFEST, Engine, read_manifest
from tuner.build.lock import try_lock
from tuner.errors import NoSpaceLeft, UserError
from tuner.quantity import format_bytes

_REMOVE_S = 600.0


@dataclass(frozen=True, slots=True)
class CachedEngine:
    """One folder of the cache.

    Attributes:
        name: Name of the folder: the recipe and the first of the digest.
        path: The folder.
        engine: The engine, or None where its building did not end.
        building: Whether someone is building it now.
        size: Bytes that it takes on disk.
        age_s: Seconds since it was finished, or since its building was last heard of.
    """

    name: str
    path: Path
    engine: Engine | None
    building: bool
    size: int
    age_s: float


def engine_root(cache: Path, recipe: str, digest: str) -> Path:
    """The folder of an engine."""
    return cache / "engines" / f"{recipe}-{digest[:12]}"


def lock_path(root: Path) -> Path:
    """The lock of an engine: beside its folder, since the folder is removed and made again under it."""
    return root.with_name(f"{root.name}.lock")


def prepare(cache: Path) -> None:
    """Make the cache's folders.

    Raises:
        UserError: When they cannot be written.
    """
    for folder in (cache / "engines", cache / "models", cache / "logs"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(cache, error.strerror) from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _unwritable(cache, "no permission to write")


def _unwritable(cache: Path, why: str | None) -> UserError:
    return UserError(
        f"the cache folder {cache} cannot be used: {why}",
        mend="point TUNER_CACHE at another folder",
    )


def new_log(cache: Path, name: str) -> Path:
    """A new log file for a build, named after it and the time."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return cache / "logs" / f"build-{name}-{stamp}-{os.getpid()}.log"


@dataclass(frozen=True, slots=True)
class Space:
    """Disk that a build needs: so many bytes, in the file system of a folder."""

    need: int
    folder: Path


def require_space(space: Space) -> None:
    """Insist on free disk before a build.

    Raises:
        NoSpaceLeft: When there is less than it needs.
    """
    free = shutil.disk_usage(space.folder).free
    if free < space.need:
        raise NoSpaceLeft(
            f"building this engine needs {format_bytes(space.need)} in {space.folder}"
            f" and {format_bytes(free)} are free",
            mend="free some space (tuner engine list --prune), or point TUNER_CACHE at another disk",
        )


def sweep(cache: Path) -> list[Path]:
    """Remove what dead builds left: every unfinished folder whose lock nobody holds.

    Returns:
        The folders that were removed.
    """
    removed = []
    for root in _roots(cache):
        if read_manifest(root) is not None:
            continue
        with try_lock(lock_path(root)) as handle:
            if handle is not None and read_manifest(root) is None:
                remove(root)
                removed.append(root)
    return removed


def list_engines(cache: Path) -> tuple[CachedEngine, ...]:
    """Every engine in the cache, finished or not, in the order of the names."""
    return tuple(_describe(root) for root in _roots(cache))


def prune(cache: Path, *, keep: Collection[str]) -> tuple[CachedEngine, ...]:
    """Remove the engines whose digest is not to be kept, except those in use or being built.

    An engine that was built as an image goes with its image; an image that was there already stays.

    Args:
        cache: The user's cache.
        keep: Digests of the engines to keep.

    Returns:
        What was removed.
    """
    removed = []
    for entry in list_engines(cache):
        if entry.engine is not None and entry.engine.digest in keep:
            continue
        with try_lock(lock_path(entry.path)) as handle:
            if handle is not None and not users_of(entry.path) and _image_removed(entry.engine):
                remove(entry.path)
                removed.append(entry)
    return tuple(removed)


def _image_removed(engine: Engine | None) -> bool:
    """Remove the image that was built for an engine; False where a container still uses it."""
    if engine is None or engine.kind != "image" or engine.image is None:
        return True
    if image_id(engine.image) is None:
        return True
    return docker("image", "rm", engine.image, timeout_s=_REMOVE_S)[0] == 0


def users_of(root: Path) -> tuple[int, ...]:
    """Processes that run from an engine's folder: they have a file of it mapped or open as their cwd."""
    prefix = f"{root}/"
    pids = [process for process in Path("/proc").iterdir() if process.name.isdigit()]
    return tuple(sorted(int(process.name) for process in pids if _uses(process, prefix)))


def remove(root: Path) -> None:
    """Remove an engine's folder so that it is unfinished from the first moment on."""
    (root / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(root)


def _roots(cache: Path) -> list[Path]:
    engines = cache / "engines"
    return sorted(path for path in engines.glob("*") if path.is_dir()) if engines.is_dir() else []


def _describe(root: Path) -> CachedEngine:
    engine = read_manifest(root)
    with try_lock(lock_path(root)) as handle:
        building = handle is None
    touched = (root / MANIFEST if engine is not None else root).stat().st_mtime
    return CachedEngine(
        name=root.name,
        path=root,
        engine=engine,
        building=building,
        size=engine.size if engine is not None else size_of(root),
        age_s=max(0.0, time.time() - touched),
    )


def size_of(root: Path) -> int:
    """Bytes on disk of a tree, hard links once."""
    seen: set[int] = set()
    total = 0
    for folder, _, files in os.walk(root):
        for name in files:
            try:
                info = Path(folder, name).lstat()
            except FileNotFoundError:
                continue
            if info.st_ino not in seen:
                seen.add(info.st_ino)
                total += info.st_blocks * 512
    return total


def _uses(process: Path, prefix: str) -> bool:
    try:
        if f"{(process / 'cwd').readlink()}/".startswith(prefix):
            return True
        return prefix in (process / "maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False  # it ended meanwhile, or it is another user's and cannot have our engine

"""What an engine is keyed by: the contents of its recipe and sources, and what it is built on."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from tuner.files import digest_files

FORMAT = 1
"""Raised whenever the same recipe would be built differently, so that old engines are not reused."""

_IGNORED_FOLDERS = {
    "__pycache__",
    ".git",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
}
_BUILD_FOLDERS = {"build", "dist"}  # at the top of a package only: `enginex/native/build` is source
_COMPILED = (".pyc", ".pyo", ".swp", "~")
_LIBRARIES = (
    ".so",
    ".o",
)  # in a package's sources these were compiled in place; a recipe may ship one


def named_files(root: Path, *, libraries: bool = False) -> list[tuple[str, Path]]:
    """The files of a source tree by relative name, without what running or building it leaves there.

    Args:
        root: The tree.
        libraries: Whether compiled libraries belong to it, as in a recipe that ships one.
    """
    ends = _COMPILED if libraries else _COMPILED + _LIBRARIES
    found = []
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if not _ignored(parts) and not path.name.endswith(ends) and path.is_file():
            found.append(("/".join(parts), path))
    return sorted(found)


def _ignored(parts: tuple[str, ...]) -> bool:
    folders = parts[:-1]
    if folders and folders[0] in _BUILD_FOLDERS:
        return True
    return any(name in _IGNORED_FOLDERS or name.endswith(".egg-info") for name in folders)


def files_digest(recipe: Path, sources: Mapping[str, Path]) -> str:
    """SHA-256 of a recipe and its sources: relative names and contents, never times or places.

    Args:
        recipe: The recipe's folder.
        sources: The packages that its steps install, by name.
    """
    files = [(f"recipe/{name}", path) for name, path in named_files(recipe, libraries=True)]
    for source, root in sources.items():
        files += [(f"source/{source}/{name}", path) for name, path in named_files(root)]
    return digest_files(files)


def platform_tag() -> str:
    """What a binary wheel of this interpreter depends on, as ``cpython-311-linux-x86_64``."""
    return f"{sys.implementation.cache_tag}-{sys.platform}-{platform.machine()}"


def engine_digest(files: str, *, kind: str, base: str) -> str:
    """The key of an engine.

    Args:
        files: Digest of the recipe's files and sources.
        kind: ``venv``, ``image`` or ``existing``.
        base: What it is built on: the interpreter's tag, or the base image's identity.
    """
    return hashlib.sha256(f"{FORMAT}\0{kind}\0{base}\0{files}".encode()).hexdigest()

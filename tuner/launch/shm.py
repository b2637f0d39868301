"""Shared memory that an engine leaves behind in /dev/shm when it is killed."""

from __future__ import annotations

import os
import re
from pathlib import Path

SHM = Path("/dev/shm")  # noqa: S108 - the folder is the subject
OURS = re.compile(r"psm_|sem\.mp-|vllm|nccl-|torch_|ray_|cuda")
"""Names that Python's multiprocessing, torch, NCCL and vLLM give. Other files may be somebody's data."""


def snapshot() -> tuple[str, ...]:
    """The names in /dev/shm now."""
    try:
        return tuple(sorted(os.listdir(SHM)))
    except FileNotFoundError:
        return ()


def leftovers(before: tuple[str, ...]) -> tuple[str, ...]:
    """Files that an engine left: new, ours, of an engine's kind, and mapped by no live process."""
    fresh = [name for name in snapshot() if name not in set(before) and OURS.match(name)]
    mine = [name for name in fresh if _uid(name) == os.getuid()]
    if not mine:
        return ()
    used = _in_use()
    return tuple(name for name in mine if name not in used)


def sweep(before: tuple[str, ...]) -> tuple[str, ...]:
    """Remove what :func:`leftovers` finds.

    Returns:
        The names that were removed.
    """
    removed = []
    for name in leftovers(before):
        (SHM / name).unlink(missing_ok=True)
        removed.append(name)
    return tuple(removed)


def _uid(name: str) -> int | None:
    try:
        return (SHM / name).stat().st_uid
    except OSError:
        return None


def _in_use() -> set[str]:
    """Names in /dev/shm that some process has mapped or open."""
    prefix = f"{SHM}/"
    used: set[str] = set()
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        try:
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
            handles = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        used.update(
            line.split(prefix, 1)[1].split()[0] for line in maps.splitlines() if prefix in line
        )
        used.update(h.removeprefix(prefix).split(" ")[0] for h in handles if h.startswith(prefix))
    return used

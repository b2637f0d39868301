"""Shared memory that an engine leaves behind in /dev/shm when it is killed."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

SHM = Path("/dev/shm")  # noqa: S108 - the folder is the subject
OURS = re.compile(r"psm_|sem\.mp-|vllm|nccl-")
"""Names that multiprocessing, vLLM and NCCL give. Any other file may be somebody's data, unless the
engine's own processes were seen to use it or gave it their number."""

_NUMBERED = re.compile(r"(?:torch_|__KMP_REGISTERED_LIB_|(?:sem\.)?loky-)(?P<pid>\d+)(?!\d)")
"""Names in which PyTorch, OpenMP and loky write their process's number. OpenMP maps its file for a
moment only, so nobody is ever seen to use it."""

_SETTLE = 2.0
"""Seconds for which a file must stay unmapped before it is taken for left: a neighbour's engine that
is just starting creates a semaphore and maps it a moment later."""


def snapshot() -> tuple[str, ...]:
    """The names in /dev/shm now."""
    try:
        return tuple(sorted(os.listdir(SHM)))
    except FileNotFoundError:
        return ()


def leftovers(before: tuple[str, ...], seen: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Files that an engine left: new, ours, used by it or of an engine's kind, mapped by no live process.

    Args:
        before: Names that were there before the engine.
        seen: Names that are known for the engine's own, whatever they are called. Any other name
            must be of an engine's kind, and for it this waits until it has been unmapped for two
            seconds.
    """
    found = _candidates(before, seen)
    if doubtful := found - seen:
        time.sleep(_SETTLE)
        found = (found & seen) | (doubtful & _candidates(before, seen))
    return tuple(sorted(found))


def sweep(before: tuple[str, ...], seen: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Remove what :func:`leftovers` finds.

    Returns:
        The names that could not be removed.
    """
    stuck = []
    for name in leftovers(before, seen):
        try:
            (SHM / name).unlink(missing_ok=True)
        except OSError:
            stuck.append(name)
    return tuple(stuck)


def mapped_by(pids: Iterable[int]) -> frozenset[str]:
    """Names in /dev/shm that these processes have mapped or open.

    Files are known by their inodes: glibc makes a semaphore under a passing name, maps it and only
    then links it to its own, so the maker's map shows the passing name for ever.
    """
    used = {inode for pid in pids for inode in _inodes(pid)}
    return frozenset(name for name in snapshot() if _inode(name) in used)


def named_by(pids: Iterable[int]) -> frozenset[str]:
    """Names in /dev/shm in which a library has written the number of one of these processes."""
    makers = set(pids)
    found = ((name, _NUMBERED.match(name)) for name in snapshot())
    return frozenset(name for name, match in found if match and int(match["pid"]) in makers)


def _candidates(before: tuple[str, ...], seen: frozenset[str]) -> frozenset[str]:
    fresh = {n for n in set(snapshot()) - set(before) if n in seen or OURS.match(n)}
    mine = {name for name in fresh if _uid(name) == os.getuid()}
    if not mine:
        return frozenset()
    return frozenset(mine - mapped_by(int(p) for p in os.listdir("/proc") if p.isdigit()))


def _stat(name: str) -> os.stat_result | None:
    try:
        return (SHM / name).lstat()
    except OSError:
        return None


def _uid(name: str) -> int | None:
    found = _stat(name)
    return None if found is None else found.st_uid


def _inode(name: str) -> int | None:
    found = _stat(name)
    return None if found is None else found.st_ino


def _inodes(pid: int) -> set[int]:
    """Inodes in /dev/shm that a process has mapped or open."""
    prefix = f"{SHM}/"
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
        handles = [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return set()
    # address perms offset device inode path
    found = {int(line.split(None, 5)[4]) for line in maps.splitlines() if prefix in line}
    for handle in handles:
        with contextlib.suppress(OSError):
            if os.readlink(handle).startswith(prefix):
                found.add(os.stat(handle).st_ino)
    return found

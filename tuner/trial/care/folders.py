"""The folders that tuner writes to: whose they are, whether they can be written, whether there is room."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from tuner.launch import shm
from tuner.quantity import format_bytes
from tuner.trial.care.finding import Finding, bad, note, ok

_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "ceph", "lustre"})
"""File systems over a network, on which SQLite's write-ahead log is not safe."""

_UNREAL = frozenset({"proc", "sysfs", "cgroup", "cgroup2", "devpts", "debugfs", "tracefs"})
"""File systems that the kernel shows itself in, in which nobody can keep a folder."""

NEEDED = 2**30
"""Bytes below which a folder is full: a ledger, records and an engine's log of a night fit in it."""
_INODES = 1000
_SOCKET = 60
"""Characters of a temporary folder's name beyond which an engine's unix sockets (107) may not fit."""


def look_at_state(folder: Path) -> list[Finding]:
    """Whether the state folder can be used, and by whom else."""
    check = "state folder"
    if not folder.exists():
        above = next(each for each in folder.parents if each.exists())
        if (kind := _file_system(above)) in _UNREAL:
            said = f"{folder} cannot be made: {above} is of the kernel's own file system {kind}"
            return [bad(check, said, "name another folder with --state or TUNER_STATE")]
        if os.access(above, os.W_OK | os.X_OK):
            return [ok(check, f"{folder} is not there yet; the first run makes it")]
        return [
            bad(
                check,
                f"{folder} is not there, and {above} cannot be written by you",
                f"sudo install -d -o {os.getuid()} -m 700 {folder}, or name another folder with --state",
            )
        ]
    found = _look_at_rights(check, folder)
    if (kind := _file_system(folder)) in _REMOTE:
        found.append(
            bad(
                check,
                f"{folder} is on {kind}, where a ledger can be damaged",
                "name a folder on a disk of this machine with --state or TUNER_STATE",
            )
        )
    return found


def _look_at_rights(check: str, folder: Path) -> list[Finding]:
    seen = folder.stat()
    mode = stat.S_IMODE(seen.st_mode)
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return [
            bad(
                check,
                f"{folder} cannot be written by you (owner {seen.st_uid}, mode {mode:o})",
                f"sudo chown -R {os.getuid()} {folder}, or name another folder with --state",
            )
        ]
    if locked := [p.name for p in folder.glob("ledger*") if not os.access(p, os.R_OK | os.W_OK)]:
        return [
            bad(
                check,
                f"{', '.join(sorted(locked))} in {folder} cannot be written by you",
                f"sudo chown -R {os.getuid()} {folder}",
            )
        ]
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        said = f"anybody on this machine may write {folder} (mode {mode:o})"
        return [bad(check, said, f"chmod 700 {folder}")]
    return [ok(check, f"{folder} (mode {mode:o})")]


def look_at_room(folders: Sequence[tuple[str, Path]]) -> list[Finding]:
    """Whether the disks of folders have room.

    Args:
        folders: Pairs of what a folder is for, and the folder; it may not be there yet.
    """
    found = []
    for what, folder in folders:
        there = next(each for each in (folder, *folder.parents) if each.exists())
        room = os.statvfs(there)
        free = room.f_bavail * room.f_frsize
        if free < NEEDED:
            said = f"{format_bytes(free)} are free for {what} ({there})"
            found.append(bad("disk", said, _make_room(what)))
        elif room.f_files and room.f_favail < _INODES:
            said = f"only {room.f_favail} more files can be made for {what} ({there})"
            found.append(bad("disk", said, _make_room(what)))
        else:
            found.append(ok("disk", f"{format_bytes(free)} are free for {what} ({there})"))
    return found


def _make_room(what: str) -> str:
    if what == "engines":
        return "tuner engine list --prune removes engines that no recipe needs; or see TUNER_CACHE"
    return f"make room: {format_bytes(NEEDED)} is the least to run with"


def look_at_scratch(folder: Path | None = None) -> list[Finding]:
    """Whether engines have a folder for temporary files in which their sockets fit."""
    place = folder or Path(tempfile.gettempdir())
    if not os.access(place, os.W_OK | os.X_OK):
        return [bad("temporary files", f"{place} cannot be written", "set TMPDIR to one that can")]
    if len(str(place)) > _SOCKET:
        said = f"{place} is so long a name that an engine's unix sockets may not fit into it"
        return [note("temporary files", said, "set TMPDIR to a folder with a short name")]
    return []


def look_at_shared_memory() -> list[Finding]:
    """Whether files of engines lie in /dev/shm that no process uses."""
    check = "shared memory"
    if not shm.SHM.is_dir():
        return [bad(check, f"there is no {shm.SHM}", f"mount a tmpfs on {shm.SHM}")]
    left = shm.leftovers(())
    if not left:
        return [ok(check, f"nothing of an engine's kind is left in {shm.SHM}")]
    size = sum(path.stat().st_size for name in left if (path := shm.SHM / name).exists())
    names = " ".join(shlex.quote(str(shm.SHM / name)) for name in left[:8])
    said = f"{len(left)} files of an engine's kind ({format_bytes(size)}) are used by no process"
    return [
        note(check, said, f"no start of tuner's is on record for them; if you agree: rm {names}")
    ]


def _file_system(folder: Path) -> str:
    """Kind of the file system that holds a folder; empty where the system does not tell."""
    whole = str(folder.resolve())
    held = [
        part
        for part in psutil.disk_partitions(all=True)
        if whole == part.mountpoint or whole.startswith(part.mountpoint.rstrip("/") + "/")
    ]
    return max(held, key=lambda part: len(part.mountpoint)).fstype if held else ""

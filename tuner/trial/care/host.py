"""The host: its memory, the limits that it can put on an engine, and the limits on tuner itself."""

from __future__ import annotations

import resource

from tuner.launch.cage import find_home
from tuner.quantity import format_bytes
from tuner.telemetry.cgroup import CgroupMemory, cgroup_memory
from tuner.telemetry.host import HostSampler
from tuner.trial.care.finding import Finding, bad, note, ok

_LEAST = 2 * 2**30
_FILES = 1024


def look_at_memory() -> list[Finding]:
    """Whether there is host memory to be had, and what limits it."""
    now = HostSampler().sample()
    if now.memory_available is None or now.memory_limit is None:
        return [
            bad("host memory", "the system does not say what is free", "see that /proc is mounted")
        ]
    said = (
        f"{format_bytes(now.memory_available)} of {format_bytes(now.memory_limit)} can be had"
        + _group(cgroup_memory())
    )
    if now.memory_available < _LEAST:
        return [
            bad("host memory", said, "end what holds it, or raise the limit of the control group")
        ]
    return [ok("host memory", said)]


def _group(group: CgroupMemory | None) -> str:
    return "" if group is None else f" (a control group allows {format_bytes(group.limit)})"


def look_at_cages() -> list[Finding]:
    """Whether an engine can be given a memory limit that the kernel keeps."""
    check = "memory limit"
    home = find_home()
    if home is not None:
        return [ok(check, f"the kernel keeps an engine's limit, by a control group in {home}")]
    return [
        note(
            check,
            "no control group can be made here, so an engine's memory limit is kept by a look twice a second",
            "run the daemon as deploy/systemd/tuner.service does (Delegate=yes), or use launch: docker",
        )
    ]


def look_at_files() -> list[Finding]:
    """Whether enough files may be open at once for a load of many streams."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        said = f"a process may have {soft} files open, too few for a load of many streams"
        return [note("open files", said, f"ulimit -n {min(hard, 65536) if hard > 0 else 65536}")]
    return []

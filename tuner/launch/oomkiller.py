"""How often the kernel's out-of-memory killer struck."""

from __future__ import annotations

from pathlib import Path

VMSTAT = Path("/proc/vmstat")


def oom_kills(path: Path = VMSTAT) -> int | None:
    """Processes that the kernel has killed for want of memory since it booted, on the whole machine.

    Only differences mean something. None where the kernel does not say.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    counts = [line.split()[1] for line in lines if line.startswith("oom_kill ")]
    return int(counts[0]) if counts else None

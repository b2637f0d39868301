"""What machine this is: what must be equal for two figures to be compared."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any


def machine_facts() -> dict[str, Any]:
    """The machine in a few words: processor, cores, memory, kernel, Python."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    }


def _cpu_model() -> str:
    """Vendor's name of the processor, with family and model, which tell virtual ones apart."""
    text = Path("/proc/cpuinfo").read_text(errors="replace")
    found = {
        name.strip(): value.strip()
        for name, value in re.findall(r"^([^:\n]+):([^\n]*)$", text, re.MULTILINE)
    }
    name = found.get("model name", platform.machine())
    if "model" in found:
        return f"{name} (family {found.get('cpu family', '?')} model {found['model']})"
    return name

"""Files that a process leaves in /dev/shm, as the libraries of an engine do."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

HELD: list[mmap.mmap] = []


def leak_as_libraries_do() -> None:
    """Leave files in /dev/shm as PyTorch and OpenMP do: one that stays mapped, one that does not."""
    tensor = Path(f"/dev/shm/torch_{os.getpid()}_1234567_0")
    tensor.write_bytes(bytes(4096))
    with tensor.open("r+b") as block:
        HELD.append(mmap.mmap(block.fileno(), 0))
    Path(f"/dev/shm/__KMP_REGISTERED_LIB_{os.getpid()}_{os.getuid()}").write_bytes(bytes(1024))
    data = Path(f"/dev/shm/cache-of-{os.getpid()}")  # of no kind that anybody knows
    data.write_bytes(bytes(4096))
    with data.open("r+b") as block:
        HELD.append(mmap.mmap(block.fileno(), 0))

"""The heads of safetensors files: names, types and shapes of tensors, without the tensors.

A file begins with eight bytes, the length of a JSON object in little-endian order, and that object
maps each tensor's name to its type, its shape and where its bytes lie. Nothing else is read, however
large the file is. Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from tuner.errors import ModelUnreadable

__all__ = ["Tensor", "read_header", "read_headers"]

MAX_HEADER = 100 * 2**20  # the format's own limit
MAX_TENSORS = 2_000_000
_INDEX = "model.safetensors.index.json"

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E5M2FNUZ": 8,
    "F8_E4M3FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
"""Bits of one element, by the format's name of the type."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint.

    Attributes:
        name: As the checkpoint calls it.
        dtype: The format's name of its type, such as ``BF16``.
        shape: Its shape; empty for a scalar.
        size: Bytes in the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def read_headers(folder: Path) -> tuple[Tensor, ...]:
    """The tensors of a model folder, in the order of their names.

    Where there is an index, exactly the files that it names are read, as the engine does; else all
    that end in ``.safetensors``.

    Returns:
        The tensors; none when the folder has no such files.

    Raises:
        ModelUnreadable: When a file or the index is damaged, or one that the index names is missing.
    """
    found: dict[str, Tensor] = {}
    for file in _files(folder):
        for tensor in read_header(file):
            if tensor.name in found:
                raise ModelUnreadable(f"tensor {tensor.name!r} is in two files", file=file)
            found[tensor.name] = tensor
    return tuple(found[name] for name in sorted(found))


def read_header(file: Path) -> tuple[Tensor, ...]:
    """The tensors of one safetensors file.

    Raises:
        ModelUnreadable: When the file is not what the format says.
    """
    try:
        with file.open("rb") as raw:
            prefix = raw.read(8)
            total = raw.seek(0, 2)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < 8 or length > MAX_HEADER or 8 + length > total:
                raise ModelUnreadable("its head is cut off or too long", file=file)
            raw.seek(8)
            text = raw.read(length)
    except OSError as problem:
        raise ModelUnreadable(f"it cannot be read: {problem.strerror}", file=file) from problem
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ModelUnreadable("its head is no JSON", file=file) from problem
    if not isinstance(entries, dict) or len(entries) > MAX_TENSORS:
        raise ModelUnreadable("its head is no table of tensors", file=file)
    room = total - 8 - length
    return tuple(
        _tensor(name, entry, room, file)
        for name, entry in entries.items()
        if name != "__metadata__"
    )


def _tensor(name: str, entry: Any, room: int, file: Path) -> Tensor:
    table = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = (table.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ModelUnreadable(f"tensor {name!r} is of no known type", file=file)
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise ModelUnreadable(f"tensor {name!r} has no sound shape or place", file=file)
    begin, end = offsets
    if not begin <= end <= room:
        raise ModelUnreadable(f"tensor {name!r} lies outside the file", file=file)
    if math.prod(shape) * BITS[dtype] != (end - begin) * 8:
        raise ModelUnreadable(f"tensor {name!r} has not the size that its shape says", file=file)
    return Tensor(name, dtype, tuple(shape), end - begin)


def _naturals(value: Any) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and len(value) <= 16
        and all(type(each) is int and 0 <= each < 2**48 for each in value)
    )


def _files(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    try:
        data = json.loads(index.read_bytes())
        names = set(data["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise ModelUnreadable("it is no index of weights", file=index) from problem
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or name in (".", ".."):
            raise ModelUnreadable(f"it names a file outside the folder: {name!r}", file=index)
    return [folder / name for name in sorted(names)]

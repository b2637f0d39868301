"""What ``ixsmi`` prints, read: its CSV query and its table.

The tool follows ``nvidia-smi``, with differences by release: units stand in the header or in the
values or nowhere, names of fields change, an unknown field is a message on standard output. What
cannot be read is None. Nothing here raises for any text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable

from tuner.telemetry.samples import DeviceSample, normal_bus_id

__all__ = ["FIELD_NAMES", "invalid_field", "parse_csv", "parse_driver", "parse_table"]

FIELD_NAMES: dict[str, tuple[str, ...]] = {
    "index": ("index",),
    "uuid": ("uuid", "gpu_uuid"),
    "bus_id": ("pci.bus_id", "gpu_bus_id"),
    "name": ("name", "gpu_name"),
    "memory_used": ("memory.used",),
    "memory_total": ("memory.total",),
    "utilization": ("utilization.gpu",),
    "power": ("gpu.power.draw", "power.draw", "board.power.draw"),
    "temperature": ("temperature.gpu",),
    "sm_clock": ("clocks.sm", "clocks.current.sm"),
    "memory_clock": ("clocks.mem", "clocks.current.memory"),
}
"""Our name of a value to the names that releases of the tool know it by, the newest first."""

_BY_NAME = {theirs: ours for ours, names in FIELD_NAMES.items() for theirs in names}
_MEMORY_UNITS = {
    "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9,
}  # fmt: skip
_HEADER_UNIT = re.compile(r"^(?P<name>[^\[]+?)\s*(?:\[(?P<unit>[^\]]*)\])?$")
_NUMBER = re.compile(r"^\s*(-?\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z%]*)\s*$")
_INVALID = re.compile(r"field\s+[\"']?([\w.]+)[\"']?\s+is not a valid field", re.IGNORECASE)
_DRIVER = re.compile(r"driver version:\s*(\S+)", re.IGNORECASE)

_TABLE_FIRST = re.compile(r"^\s*(\d{1,4})\s+(\S.*?)\s*$")
_TABLE_BUS = re.compile(r"\b([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\b")
_TABLE_CLOCKS = re.compile(r"(\d{1,6})\s*MHz\s+(\d{1,6})\s*MHz")
_TABLE_MEMORY = re.compile(r"(\d{1,9})\s*MiB\s*/\s*(\d{1,9})\s*MiB")
_TABLE_TEMPERATURE = re.compile(r"(?<![\w.])(-?\d{1,4})\s*C\b")
_TABLE_POWER = re.compile(r"(?<![\w.])(\d{1,6})\s*W\s*/")
_TABLE_PERCENT = re.compile(r"(\d{1,4})\s*%")


def invalid_field(text: str) -> str | None:
    """The field that this release does not know, where the text complains of one."""
    found = _INVALID.search(text)
    return None if found is None else found[1]


def parse_driver(text: str) -> str | None:
    """The driver's version in the head of the table."""
    found = _DRIVER.search(text)
    return None if found is None else found[1]


def parse_csv(text: str) -> list[DeviceSample]:
    """Devices in the answer to a CSV query with a header.

    Lines before the header are passed over, and so is a row that has another number of cells than
    the header or no index: half a row is no evidence.
    """
    rows = csv.reader(text.replace("\0", "").splitlines(), skipinitialspace=True)
    header: list[tuple[str | None, str]] = []
    found: list[DeviceSample] = []
    for row in _readable(rows):
        names = [_header_cell(cell) for cell in row]
        if any(name is not None for name, _ in names):
            header = names
        elif header and len(row) == len(header):
            sample = _csv_row(header, row)
            if sample is not None:
                found.append(sample)
    return found


def _readable(rows: Iterable[list[str]]) -> Iterable[list[str]]:
    walk = iter(rows)
    while True:
        try:
            yield next(walk)
        except StopIteration:
            return
        except csv.Error:
            continue


def _header_cell(cell: str) -> tuple[str | None, str]:
    found = _HEADER_UNIT.match(cell.strip())
    if found is None:
        return None, ""
    return _BY_NAME.get(found["name"].strip().lower()), (found["unit"] or "").strip()


def _csv_row(header: list[tuple[str | None, str]], row: list[str]) -> DeviceSample | None:
    cells = {
        name: (cell.strip(), unit)
        for (name, unit), cell in zip(header, row, strict=True)
        if name is not None
    }
    index = _amount(cells.get("index"))
    if index is None or index < 0:
        return None
    return DeviceSample(
        index=int(index),
        uuid=_words(cells.get("uuid")),
        bus_id=normal_bus_id(_words(cells.get("bus_id"))),
        name=_words(cells.get("name")) or "",
        memory_used=_memory(cells.get("memory_used")),
        memory_total=_memory(cells.get("memory_total")),
        utilization=_amount(cells.get("utilization")),
        power=_amount(cells.get("power")),
        temperature=_amount(cells.get("temperature")),
        sm_clock=_amount(cells.get("sm_clock")),
        memory_clock=_amount(cells.get("memory_clock")),
    )


def _words(cell: tuple[str, str] | None) -> str | None:
    """A text value; what the tool prints for "none" is None."""
    if cell is None or cell[0].strip("[]").lower() in ("", "n/a", "unknown", "not supported"):
        return None
    return cell[0]


def _amount(cell: tuple[str, str] | None) -> float | None:
    if cell is None:
        return None
    found = _NUMBER.match(cell[0])
    return None if found is None else float(found[1])


def _memory(cell: tuple[str, str] | None) -> int | None:
    """Bytes; a value without a unit of its own takes the header's, and else MiB."""
    if cell is None:
        return None
    found = _NUMBER.match(cell[0])
    if found is None:
        return None
    scale = _MEMORY_UNITS.get((found[2] or cell[1] or "MiB").lower())
    size = float(found[1])
    return None if scale is None or size < 0 else int(size * scale)


def parse_table(text: str) -> list[DeviceSample]:
    """Devices in the table that the tool prints without arguments.

    A device begins at a row with its index and name, a bus address and two clocks; the rows up to
    the next such row or the list of processes are its own, however many there are.
    """
    found: list[DeviceSample] = []
    rows: list[list[str]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("|") and "processes:" in stripped.lower():
            break
        if not stripped.startswith("|") or stripped.startswith(("|-", "|=", "|+")):
            continue
        cells = stripped.strip("|").split("|")
        if _begins_device(cells):
            _finish(rows, found)
            rows = [cells]
        elif rows:
            rows.append(cells)
    _finish(rows, found)
    return found


def _begins_device(cells: list[str]) -> bool:
    return (
        len(cells) >= 3
        and _TABLE_FIRST.match(cells[0]) is not None
        and _TABLE_BUS.search(cells[1]) is not None
    )


def _finish(rows: list[list[str]], found: list[DeviceSample]) -> None:
    if not rows:
        return
    head, rest = rows[0], rows[1:]
    first = _TABLE_FIRST.match(head[0])
    bus = _TABLE_BUS.search(head[1])
    if first is None or bus is None:
        return
    left = " ".join(row[0] for row in rest)
    middle = " ".join(row[1] for row in rest if len(row) > 1)
    right = " ".join(row[2] for row in rest if len(row) > 2)
    clocks = _TABLE_CLOCKS.search(head[2])
    memory = _TABLE_MEMORY.search(middle)
    found.append(
        DeviceSample(
            index=int(first[1]),
            bus_id=normal_bus_id(bus[1]),
            name=first[2],
            memory_used=None if memory is None else int(memory[1]) * 2**20,
            memory_total=None if memory is None else int(memory[2]) * 2**20,
            utilization=_first(_TABLE_PERCENT, right),
            power=_first(_TABLE_POWER, left),
            temperature=_first(_TABLE_TEMPERATURE, left),
            sm_clock=None if clocks is None else float(clocks[1]),
            memory_clock=None if clocks is None else float(clocks[2]),
        )
    )


def _first(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return None if found is None else float(found[1])

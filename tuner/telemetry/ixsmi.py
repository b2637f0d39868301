"""Devices as Iluvatar's ``ixsmi`` shows them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from tuner.errors import TelemetryLost
from tuner.telemetry.command import Tool
from tuner.telemetry.ixsmi_text import (
    FIELD_NAMES,
    invalid_field,
    parse_csv,
    parse_driver,
    parse_table,
)
from tuner.telemetry.samples import DeviceInfo, DeviceSample

__all__ = ["IxsmiSource", "find_ixsmi"]

_VENDOR_PATHS = ("/usr/local/corex/bin/ixsmi", "/usr/bin/ixsmi")


def find_ixsmi(asked: str | None = None) -> str | None:
    """Path of the tool: the one asked for, else on ``PATH``, else where the vendor installs it."""
    if asked is not None:
        return shutil.which(asked)
    candidates = ("ixsmi", *_VENDOR_PATHS)
    return next((found for each in candidates if (found := shutil.which(each))), None)


class IxsmiSource:
    """Samples through ``ixsmi``: its CSV query, or its table where the query does not work.

    Args:
        program: Path or name of the tool; None searches for it.
        timeout: Seconds that one run of the tool may take.

    Raises:
        TelemetryLost: When the tool is not there.
    """

    kind = "ixsmi"

    def __init__(self, program: str | None = None, *, timeout: float = 10.0) -> None:
        found = find_ixsmi(program)
        if found is None:
            raise TelemetryLost(f"{program or 'ixsmi'} is not on this machine")
        self._tool = Tool(found, timeout=timeout, env=_library_path(found))
        # For each value, which of its names this release answers to; a value whose names are all
        # refused is dropped. Both are learnt from the tool's own complaints.
        self._names = {ours: list(names) for ours, names in FIELD_NAMES.items()}
        self._csv: bool | None = None  # whether the query has ever worked; None before the first
        self._uuids: dict[str, str] = {}

    def devices(self) -> list[DeviceInfo]:
        """All devices that the tool shows."""
        samples = self.sample()
        driver = parse_driver(self._tool.run([]))
        return [
            DeviceInfo(
                index=each.index,
                uuid=each.uuid,
                bus_id=each.bus_id,
                name=each.name,
                memory_total=each.memory_total,
                driver=driver,
            )
            for each in samples
        ]

    def sample(self) -> list[DeviceSample]:
        """One sample of each device."""
        if self._csv is not False:
            samples = self._query()
            if samples:
                self._csv = True
                return samples
            self._csv = self._csv or False
        return self._table()

    def cpu_seconds(self) -> float:
        """CPU time of all runs of the tool so far."""
        return self._tool.cpu_seconds

    def close(self) -> None:
        """Nothing is held between runs."""

    def _query(self) -> list[DeviceSample]:
        """Ask for CSV, dropping each name that the tool refuses, until it answers."""
        for _ in range(sum(len(names) for names in FIELD_NAMES.values())):
            asked = [names[0] for names in self._names.values() if names]
            text = self._tool.run([f"--query-gpu={','.join(asked)}", "--format=csv"])
            refused = invalid_field(text)
            if refused is None:
                return self._remember(parse_csv(text))
            if not self._drop(refused):
                return []
        return []

    def _drop(self, refused: str) -> bool:
        """Whether the refused name was one of those asked for; it is never asked for again."""
        for ours, names in self._names.items():
            if names and names[0] == refused:
                names.pop(0)
                return ours not in ("index", "memory_used", "memory_total") or bool(names)
        return False

    def _table(self) -> list[DeviceSample]:
        text = self._tool.run([])
        samples = parse_table(text)
        if not samples:
            first = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
            raise TelemetryLost(f"{self._tool.program} shows no device: {first[:200]}")
        return [
            replace(each, uuid=self._uuids.get(each.bus_id)) if each.bus_id else each
            for each in samples
        ]

    def _remember(self, samples: list[DeviceSample]) -> list[DeviceSample]:
        """Keep which card has which UUID, for the table does not say."""
        self._uuids.update(
            (each.bus_id, each.uuid) for each in samples if each.bus_id and each.uuid
        )
        return samples


def _library_path(program: str) -> dict[str, str]:
    """The tool needs the libraries that lie beside it, which a service's environment may lack."""
    root = Path(program).resolve().parent.parent
    folders = [str(root / name) for name in ("lib64", "lib") if (root / name).is_dir()]
    if not folders or str(root) in ("/usr", "/"):
        return {}
    return {"LD_LIBRARY_PATH": ":".join(folders)}

"""The machine as the daemon sees it: its devices, and how they and the host are doing now."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import Any

from tuner.errors import TelemetryLost
from tuner.telemetry.detect import detect
from tuner.telemetry.host import HostSampler
from tuner.telemetry.samples import DeviceInfo, DeviceSource

_FRESH = 1.0
"""Seconds for which a sample is good: asking more often shows nothing new."""


class Machine:
    """The devices and the host, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._source: DeviceSource | None = None
        self._host = HostSampler()
        self._seen: tuple[DeviceInfo, ...] = ()
        self._sampled = 0.0
        self._sample: dict[str, Any] = {}

    def devices(self) -> tuple[DeviceInfo, ...]:
        """The machine's devices; as they were last seen, where the driver does not answer now."""
        with self._lock:
            try:
                self._seen = tuple(self._open().devices())
            except TelemetryLost:
                self._shut()
            return self._seen

    @property
    def kind(self) -> str:
        """Kind of the source of device samples."""
        with self._lock:
            return self._open().kind

    def sample(self) -> dict[str, Any]:
        """The host and the devices now, JSON-ready; at most a second old."""
        with self._lock:
            now = time.monotonic()
            if now - self._sampled >= _FRESH or not self._sample:
                self._sample = self._take()
                self._sampled = now
            return self._sample

    def close(self) -> None:
        """Let the driver go."""
        with self._lock:
            self._shut()

    def _open(self) -> DeviceSource:
        if self._source is None:
            self._source = detect().source
        return self._source

    def _shut(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def _take(self) -> dict[str, Any]:
        problem = None
        devices: list[dict[str, Any]] = []
        try:
            source = self._open()
            infos = {info.key: info for info in source.devices()}
            for found in source.sample():
                info = infos.get(found.key)
                devices.append(
                    {**asdict(found), "key": found.key, "driver": info.driver if info else None}
                )
        except TelemetryLost as error:
            problem = str(error)
            self._shut()
        return {
            "at": time.time(),
            "host": asdict(self._host.sample()),
            "devices": devices,
            "problem": problem,
        }

"""What is known of a device and of the host at one moment. Unknown is None, and None is never zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What does not change about a device while its driver is loaded.

    Attributes:
        index: Its number in the source's own order; it can shift when a card is lost.
        uuid: The vendor's identifier, where the source gives one.
        bus_id: PCI address in lower case with an eight-digit domain, as ``00000000:1e:00.0``.
        name: The model of the card.
        memory_total: Bytes of device memory.
        driver: Version of the driver.
    """

    index: int
    uuid: str | None
    bus_id: str | None
    name: str
    memory_total: int | None
    driver: str | None = None

    @property
    def key(self) -> str:
        """What identifies the card: its UUID, else its bus address, else its index."""
        return device_key(self.index, self.uuid, self.bus_id)


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One device at one moment.

    Attributes:
        index: Its number in the source's own order.
        uuid: The vendor's identifier, where the source gives one.
        bus_id: PCI address, as in :class:`DeviceInfo`.
        name: The model of the card.
        memory_used: Bytes that are not free, the driver's own reserve included.
        memory_total: Bytes of device memory.
        utilization: Percent of the time in which a kernel ran, 0 to 100.
        power: Watts drawn.
        temperature: Degrees Celsius.
        sm_clock: MHz of the compute clock.
        memory_clock: MHz of the memory clock.
        error: Why the device could not be read, where it could not.
    """

    index: int
    uuid: str | None = None
    bus_id: str | None = None
    name: str = ""
    memory_used: int | None = None
    memory_total: int | None = None
    utilization: float | None = None
    power: float | None = None
    temperature: float | None = None
    sm_clock: float | None = None
    memory_clock: float | None = None
    error: str | None = None

    @property
    def key(self) -> str:
        """What identifies the card: its UUID, else its bus address, else its index."""
        return device_key(self.index, self.uuid, self.bus_id)

    @property
    def memory_free(self) -> int | None:
        """Bytes that are free, where both used and total are known."""
        if self.memory_used is None or self.memory_total is None:
            return None
        return self.memory_total - self.memory_used


@dataclass(frozen=True, slots=True)
class HostSample:
    """The host at one moment.

    Attributes:
        cpu: Percent of all cores that were busy since the sample before; None for the first one.
        memory_available: Bytes that can still be had, the control group's limit taken into account.
        memory_limit: Bytes that may be used at all: the smaller of the machine and the group's limit.
    """

    cpu: float | None
    memory_available: int | None
    memory_limit: int | None


@dataclass(frozen=True, slots=True)
class TreeSample:
    """The processes of one engine at one moment.

    Attributes:
        processes: How many are alive.
        rss: Sum of their resident sets in bytes; pages that they share count once for each.
        pss: Sum of their proportional sets in bytes, where it was read at this sample.
        cpu_seconds: CPU time of those alive, user and system.
    """

    processes: int
    rss: int
    pss: int | None
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything that was read at one moment of a watch.

    Attributes:
        at: Seconds since the watch began, on the monotonic clock.
        stage: The stage of the trial, as the watch was told.
        host: The host, where it could be read.
        tree: The engine's processes, where there are any to follow.
        devices: One entry for each device that the source listed; None when the source failed.
        gap: What could not be read, and why; None when all was read.
    """

    at: float
    stage: str
    host: HostSample | None
    tree: TreeSample | None
    devices: tuple[DeviceSample, ...] | None
    gap: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The sample as JSON-ready data; :meth:`from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Sample:
        """The sample that :meth:`as_json` wrote; fields that are not known are left out."""
        devices = data.get("devices")
        host, tree = data.get("host"), data.get("tree")
        return cls(
            at=float(data["at"]),
            stage=str(data["stage"]),
            host=None if host is None else HostSample(**_known(HostSample, host)),
            tree=None if tree is None else TreeSample(**_known(TreeSample, tree)),
            devices=None
            if devices is None
            else tuple(DeviceSample(**_known(DeviceSample, each)) for each in devices),
            gap=data.get("gap"),
        )


@runtime_checkable
class DeviceSource(Protocol):
    """Where samples of devices come from."""

    @property
    def kind(self) -> str:
        """A short name for reports: ``nvml``, ``ixsmi`` or ``none``."""

    def devices(self) -> list[DeviceInfo]:
        """All devices that the driver shows.

        Raises:
            TelemetryLost: When the driver does not answer.
        """

    def sample(self) -> list[DeviceSample]:
        """One sample of each device.

        Raises:
            TelemetryLost: When the driver does not answer. A single device that cannot be read is
                a sample with its ``error`` set.
        """

    def cpu_seconds(self) -> float:
        """CPU time of helper programs that the source has run so far, in seconds."""

    def close(self) -> None:
        """Let go of the driver; the source is not used afterwards."""


class NoDevices:
    """The source of a host without accelerators: it has no devices, and says so."""

    kind = "none"

    def devices(self) -> list[DeviceInfo]:
        """No device."""
        return []

    def sample(self) -> list[DeviceSample]:
        """No device."""
        return []

    def cpu_seconds(self) -> float:
        """Nothing is run."""
        return 0.0

    def close(self) -> None:
        """Nothing is held."""


def device_key(index: int, uuid: str | None, bus_id: str | None) -> str:
    """What identifies a card: its UUID, else its bus address, else its index."""
    return uuid or bus_id or f"#{index}"


def normal_bus_id(text: str | None) -> str | None:
    """A PCI address in one form, whatever the number of digits in its domain.

    Args:
        text: An address such as ``0000:1E:00.0`` or ``00000000:1E:00.0``, or something else.
    """
    if text is None:
        return None
    parts: Sequence[str] = text.strip().lower().split(":")
    if len(parts) == 2:
        parts = ("0", *parts)
    if len(parts) != 3 or "." not in parts[2]:
        return None
    return f"{parts[0]:0>8}:{parts[1]}:{parts[2]}"


def _known(kind: type, data: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in data.items() if name in names}

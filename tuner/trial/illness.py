"""Signs that the devices of a trial are sick, gathered while its engine runs on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.telemetry.kernel_log import KernelLog
from tuner.telemetry.samples import DeviceInfo, Sample
from tuner.telemetry.sick import Ailing, xid_fault
from tuner.verdict import DeviceFacts


class Illness:
    """What speaks against the devices of one trial. Those of others are looked at, and left out.

    Args:
        devices: The devices that the trial's engine uses; with none the kernel's log stays closed.
    """

    def __init__(self, devices: Sequence[DeviceInfo]) -> None:
        self._devices = tuple(devices)
        self._ailing = Ailing()
        self._kernel = KernelLog() if devices else None

    def hear(self, sample: Sample) -> None:
        """Take a sample of a watch; called in the watch's thread."""
        if sample.devices is not None:
            self._ailing.add(sample.devices)

    def conclude(self, before: Sequence[DeviceFacts]) -> tuple[DeviceFacts, ...]:
        """What is known of the devices, once the watch has ended.

        Args:
            before: The devices as they were found before the start, in the order of ``devices``;
                none where they were never looked at.
        """
        faults = self._faults()
        looked = self._ailing.found
        return tuple(
            replace(
                facts,
                sick=tuple(
                    why for why in (looked.get(d.key), faults.get(_place(d))) if why is not None
                ),
            )
            for d, facts in zip(self._devices, before, strict=False)
        )

    def _faults(self) -> dict[str, str]:
        """What the kernel says of broken cards, by their PCI addresses."""
        if self._kernel is None:
            return {}
        lines = self._kernel.lines()
        self._kernel.close()
        return dict(fault for line in lines if (fault := xid_fault(line)) is not None)


def _place(device: DeviceInfo) -> str:
    """A PCI address without its function, as the kernel's log names a card."""
    return (device.bus_id or "").rpartition(".")[0]

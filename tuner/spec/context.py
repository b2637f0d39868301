"""What expressions know beside the parameters: the machine and the workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tuner.spec.document import SpaceDocument
from tuner.spec.evaluation import Value
from tuner.spec.limits import HardwareOverride
from tuner.spec.workload import Workload

GIB = 2**30

HARDWARE_FACTS: Final[Mapping[str, str]] = {
    "devices": "hardware.devices",
    "cores": "hardware.cores",
    "memory": "hardware.memory_gib",
    "device_memory": "hardware.device_memory_gib",
}
"""The keys of ``hardware``, and the names by which expressions ask for them."""


class Device(Protocol):
    """An accelerator, as far as its memory is known."""

    @property
    def memory_total(self) -> int | None:
        """Bytes of its memory."""


class Machine(Protocol):
    """What was found on a machine; the telemetry room has one."""

    @property
    def devices(self) -> Sequence[Device]:
        """The accelerators."""

    @property
    def cores(self) -> int:
        """Cores that the engine may use."""

    @property
    def memory_total(self) -> int:
        """Bytes of host memory that the engine may use."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine, as far as a search space can ask about it.

    Attributes:
        devices: Accelerators; 0 where the engine runs on the CPU.
        cores: CPU cores that the engine may use.
        memory_bytes: Host memory.
        device_memory_bytes: Memory of one accelerator; 0 where there is none.
    """

    devices: int
    cores: int
    memory_bytes: int
    device_memory_bytes: int = 0

    @classmethod
    def of(cls, machine: Machine) -> Hardware:
        """The part of a machine that search spaces ask about; of unlike devices, the smallest memory."""
        sizes = [device.memory_total or 0 for device in machine.devices]
        return cls(len(sizes), machine.cores, machine.memory_total, min(sizes, default=0))

    def overridden(self, by: HardwareOverride) -> Hardware:
        """The machine as the search space wants it to be taken."""
        return Hardware(
            devices=self.devices if by.devices is None else by.devices,
            cores=self.cores if by.cores is None else by.cores,
            memory_bytes=self.memory_bytes if by.memory is None else by.memory,
            device_memory_bytes=(
                self.device_memory_bytes if by.device_memory is None else by.device_memory
            ),
        )

    def facts(self) -> dict[str, int | float]:
        """The names that expressions use, and their values."""
        return {
            HARDWARE_FACTS["devices"]: self.devices,
            HARDWARE_FACTS["cores"]: self.cores,
            HARDWARE_FACTS["memory"]: self.memory_bytes / GIB,
            HARDWARE_FACTS["device_memory"]: self.device_memory_bytes / GIB,
        }


ASSUMED = Hardware(devices=1, cores=2, memory_bytes=16 * GIB, device_memory_bytes=16 * GIB)
"""A machine for checks that only ask whether an expression can be computed at all."""


class Declares(Protocol):
    """A search space, as far as a context needs it."""

    @property
    def document(self) -> SpaceDocument:
        """What its file declares."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a search space is read against.

    Attributes:
        hardware: The machine, the search space's own override included.
        workloads: The workloads by name, in the search space's order.
    """

    hardware: Hardware
    workloads: tuple[tuple[str, Workload], ...]

    @classmethod
    def of(cls, space: Declares, machine: Machine | Hardware) -> Context:
        """The context of a search space on a machine."""
        found = machine if isinstance(machine, Hardware) else Hardware.of(machine)
        document = space.document
        return cls(found.overridden(document.hardware), tuple(document.loads.items()))

    @property
    def facts(self) -> dict[str, Value]:
        """All names but the parameters', with their values."""
        return {**self.hardware.facts(), **workload_facts(dict(self.workloads))}


def workload_facts(workloads: Mapping[str, Workload]) -> dict[str, int | float]:
    """The names that expressions use for workloads; ``workload.x`` where there is only one."""
    facts: dict[str, int | float] = {}
    for name, workload in workloads.items():
        own = workload.facts()
        facts |= {f"workloads.{name}.{key}": value for key, value in own.items()}
        if len(workloads) == 1:
            facts |= {f"workload.{key}": value for key, value in own.items()}
    return facts

"""Which devices an engine of a study runs on: all that is said of memory is said of these alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tuner.build import Engine
from tuner.spec.deployment import Deployment
from tuner.telemetry.detect import visible
from tuner.telemetry.samples import DeviceInfo, DeviceSample, DeviceSource
from tuner.trial.context import Study
from tuner.trial.environment import environment


@dataclass(frozen=True, slots=True)
class Only:
    """A source that shows some of the devices of another: a neighbour's card is not the trial's.

    Attributes:
        source: The other one; closing this one leaves it open.
        keys: The devices that are shown.
    """

    source: DeviceSource
    keys: Collection[str]

    @property
    def kind(self) -> str:
        """As the other one says."""
        return self.source.kind

    def devices(self) -> list[DeviceInfo]:
        """Those that are shown."""
        return [each for each in self.source.devices() if each.key in self.keys]

    def sample(self) -> list[DeviceSample]:
        """One sample of each that is shown; with none the driver is not asked."""
        if not self.keys:
            return []
        return [each for each in self.source.sample() if each.key in self.keys]

    def cpu_seconds(self) -> float:
        """As the other one says."""
        return self.source.cpu_seconds()

    def close(self) -> None:
        """Nothing is held here."""


def on_devices(engine: Engine) -> bool:
    """Whether an engine runs on devices at all, as its recipe says."""
    return engine.container.gpus != "none" or bool(engine.container.devices)


def devices_of(study: Study, deployment: Deployment) -> tuple[DeviceInfo, ...]:
    """The devices of the machine that a deployment's engine uses; none for one that runs on the host."""
    engine = study.engines[deployment.engine]
    if not on_devices(engine):
        return ()
    env = {**environment(dict(engine.env), deployment), **study.device_env}
    return tuple(visible(list(study.hardware.devices), env))

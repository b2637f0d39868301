"""How a container of an engine is created: alone, with few rights, and known again by its labels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tuner.launch.base import ContainerPlan, LaunchPlan
from tuner.launch.ports import HOST

PORT = 8000
"""The port that the engine listens on inside."""

MARKER = "tuner.marker"
"""The label with a random word, by which a container is found whose id was never recorded."""

HOME = {"HOME": "/tmp", "USER": "tuner", "LOGNAME": "tuner"}  # noqa: S108 - inside the container
"""What libraries need of a user who may be unknown inside: where to keep caches, and a name."""


@dataclass(frozen=True, slots=True)
class ContainerIdentity:
    """What is recorded of a container.

    Attributes:
        boot: Boot in which it was created; it may be there after a reboot, but it does not run.
        name: Its name.
        marker: The random word of its label.
        port: Port on 127.0.0.1 that it is reached by.
        log: The file that its output is copied to.
        container: Its id; empty while only the intent to create it is recorded.
        pid: Its first process on this machine; 0 where that is not seen.
        start_ticks: When that process started.
        init: Whether its first process is docker's own, which only forwards signals and buries.
    """

    boot: str
    name: str
    marker: str
    port: int
    log: str
    container: str = ""
    pid: int = 0
    start_ticks: int = 0
    init: bool = True

    @property
    def words(self) -> str:
        """For people."""
        return f"container {self.name}" + (f" ({self.container[:12]})" if self.container else "")

    def as_json(self) -> dict[str, Any]:
        """The identity as JSON-ready data; :meth:`from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ContainerIdentity:
        """The identity that :meth:`as_json` wrote."""
        return cls(**data)


def create_options(
    plan: LaunchPlan, wanted: ContainerPlan, identity: ContainerIdentity
) -> dict[str, Any]:
    """What docker's SDK is given to create the container, the host's part under ``host``."""
    return {
        "image": wanted.image,
        "name": identity.name,
        "entrypoint": [plan.argv[0]],
        "command": [*plan.argv[1:], "--host", "0.0.0.0", "--port", str(PORT)],  # noqa: S104 - inside
        "environment": {**HOME, **plan.env},
        "labels": _labels(plan, identity),
        "user": wanted.user,
        # An image's own folder may hold a source tree that shadows the installed engine.
        "working_dir": "/tmp",  # noqa: S108 - inside the container
        "ports": [PORT],
        "healthcheck": {"test": ["NONE"]},
        "host": _host(plan, wanted, identity),
    }


def _labels(plan: LaunchPlan, identity: ContainerIdentity) -> dict[str, str]:
    known = {f"tuner.{name}": value for name, value in plan.labels.items()}
    return {**known, MARKER: identity.marker, "tuner.boot": identity.boot}


def _host(plan: LaunchPlan, wanted: ContainerPlan, identity: ContainerIdentity) -> dict[str, Any]:
    from docker.types import DeviceRequest, LogConfig, Mount  # noqa: PLC0415

    return {
        "init": True,
        "ipc_mode": "private",
        "shm_size": wanted.shm,
        "mem_limit": plan.memory_limit,
        "memswap_limit": plan.memory_limit,  # the same: no swap on top of it
        "port_bindings": {PORT: (HOST, identity.port)},
        "mounts": [
            Mount(inside, here, type="bind", read_only=True) for here, inside in wanted.mounts
        ],
        "devices": [f"{node}:{node}:rwm" for node in wanted.devices],
        "device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])]
        if wanted.gpus
        else None,
        "security_opt": ["no-new-privileges"],
        "cap_drop": ["ALL"],
        "cap_add": list(wanted.capabilities) or None,
        "restart_policy": {"Name": "no"},
        # Said here, because the daemon's own default may be a driver that keeps nothing, or that
        # throws away the beginning of a long log.
        "log_config": LogConfig(
            type="json-file", config={"max-size": "1024g", "max-file": "1", "compress": "false"}
        ),
    }

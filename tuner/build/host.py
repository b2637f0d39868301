"""What a container of an engine needs from this host, worked out from what its recipe declares."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tuner.build.recipe import Container
from tuner.quantity import parse_bytes

_NVIDIA = Path("/dev/nvidiactl")


@dataclass(frozen=True, slots=True)
class HostNeeds:
    """The declaration of a recipe, with patterns resolved to what is there now.

    Attributes:
        gpus: Whether every device of the NVIDIA runtime is asked for.
        devices: Device nodes to pass in.
        mounts: Pairs of a host folder that is there and where it is mounted, read-only.
        shm: Bytes of the container's own /dev/shm.
        env: Environment variables only containers need, in the order of the names.
        user: User and group to run as, ``1000:1000``; None for whoever the image says.
        capabilities: Rights of root that the engine keeps.
    """

    gpus: bool
    devices: tuple[str, ...]
    mounts: tuple[tuple[str, str], ...]
    shm: int
    env: tuple[tuple[str, str], ...]
    user: str | None = None
    capabilities: tuple[str, ...] = ()


def _capabilities(container: Container) -> tuple[str, ...]:
    """What the recipe declares; and root of this machine, as which tuner may run, reads any file."""
    own_root = container.user == "own" and os.getuid() == 0
    return tuple(dict.fromkeys((*container.capabilities, *(("DAC_OVERRIDE",) if own_root else ()))))


def host_needs(container: Container, *, root: Path = Path("/")) -> HostNeeds:
    """What a container needs from this host.

    Args:
        container: What the recipe declares.
        root: Where the host's files are seen; ``/`` but in tests.
    """
    nodes = [node for one in container.devices for node in sorted(root.glob(one.lstrip("/")))]
    pairs = [
        (host, inside) for host, _, inside in (mount.partition(":") for mount in container.mounts)
    ]
    there = [pair for pair in pairs if (root / pair[0].lstrip("/")).exists()]
    auto = container.gpus == "auto" and (root / _NVIDIA.relative_to("/")).exists()
    return HostNeeds(
        gpus=container.gpus == "all" or auto,
        devices=tuple(dict.fromkeys(f"/{node.relative_to(root)}" for node in nodes)),
        mounts=tuple(there),
        shm=parse_bytes(container.shm),
        env=tuple(sorted(container.env.items())),
        user=f"{os.getuid()}:{os.getgid()}" if container.user == "own" else None,
        capabilities=_capabilities(container),
    )

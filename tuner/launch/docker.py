"""Engines as containers of this machine's Docker daemon."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import Any

from tuner.errors import DockerLost, LaunchFailed
from tuner.launch import ports
from tuner.launch.base import LOG_NAME, Grace, LaunchPlan
from tuner.launch.container import ContainerLaunch
from tuner.launch.containerproc import is_inside
from tuner.launch.containerspec import MARKER, ContainerIdentity, create_options
from tuner.launch.dockerapi import CALL_S, Docker, Refused
from tuner.launch.identity import boot_id, read_stat

_PORT_TRIES = 3
_PORT_TAKEN = re.compile(r"address already in use|port is already allocated")


class DockerLauncher:
    """Starts engines as containers; connects to the daemon when the first one is started.

    Args:
        timeout: Seconds that one call to the daemon may take.
    """

    def __init__(self, *, timeout: float = CALL_S) -> None:
        self._timeout = timeout

    def prepare(self, plan: LaunchPlan) -> dict[str, Any]:
        """Choose port, name and marker; make the log."""
        port = ports.free_port() if plan.port is None else ports.require_free(plan.port)
        log = plan.folder / LOG_NAME
        log.touch(mode=0o600)
        marker = secrets.token_hex(16)
        return ContainerIdentity(
            boot=boot_id(),
            name=_name(plan, marker),
            marker=marker,
            port=port,
            log=str(log.resolve()),
        ).as_json()

    def start(self, plan: LaunchPlan, intent: dict[str, Any]) -> ContainerLaunch:
        """Create and start the container that was prepared.

        Raises:
            LaunchFailed: When docker refuses; nothing is left then.
            DockerLost: When no daemon answers.
        """
        identity = ContainerIdentity.from_json(intent)
        with Docker(timeout=self._timeout) as docker:
            for left in reversed(range(_PORT_TRIES)):
                identity, taken = _started(docker, plan, identity)
                if taken is None:
                    return ContainerLaunch(identity, grace=plan.grace, timeout=self._timeout)
                if plan.port is not None or not left:
                    raise taken
                identity = replace(identity, container="", port=ports.free_port())
        raise AssertionError("unreachable: the last try returns or raises")

    def recover(self, recorded: dict[str, Any]) -> ContainerLaunch:
        """Take hold of a container that an earlier tuner created, or meant to create."""
        identity = ContainerIdentity.from_json(recorded)
        try:
            with Docker(timeout=self._timeout) as docker:
                identity = _found(docker, identity)
        except DockerLost as error:
            return ContainerLaunch(identity, grace=Grace(), timeout=self._timeout, lost=str(error))
        return ContainerLaunch(identity, grace=Grace(), timeout=self._timeout)


def _name(plan: LaunchPlan, marker: str) -> str:
    words = [plan.labels.get(key, "") for key in ("study", "trial")]
    text = "-".join(["tuner", *filter(None, words), marker[:8]])
    return re.sub(r"[^a-zA-Z0-9_.-]", "-", text)


def _started(
    docker: Docker, plan: LaunchPlan, identity: ContainerIdentity
) -> tuple[ContainerIdentity, Refused | None]:
    """The identity of the running container; or the refusal, where only its port was taken."""
    if plan.container is None:
        raise LaunchFailed("an engine without an image cannot be started in a container")
    container = docker.create(create_options(plan, plan.container, identity))
    try:
        docker.start(container)
    except Refused as error:
        docker.remove(container)
        if _PORT_TAKEN.search(error.said):
            return identity, error
        raise
    return _seen(docker, replace(identity, container=container)), None


def _found(docker: Docker, identity: ContainerIdentity) -> ContainerIdentity:
    """The container by its marker; without an id where there is none (any more)."""
    ids = docker.find(MARKER, identity.marker)
    if not ids:
        return replace(identity, container="", pid=0)
    return _seen(docker, replace(identity, container=ids[0]))


def _seen(docker: Docker, identity: ContainerIdentity) -> ContainerIdentity:
    """The identity with its first process, where that is alive and seen from here."""
    known = docker.inspect(identity.container) or {}
    pid = int(known.get("State", {}).get("Pid", 0))
    stat = read_stat(pid) if pid else None
    if stat is None or not is_inside(pid, identity.container):
        return replace(identity, pid=0)
    init = bool(known.get("HostConfig", {}).get("Init"))
    return replace(identity, pid=pid, start_ticks=stat.start_ticks, init=init)

"""Engines as containers of this machine's Docker daemon."""

from __future__ import annotations

import contextlib
import re
import secrets
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.errors import DockerLost, LaunchFailed
from tuner.launch import ports
from tuner.launch.base import LOG_NAME, Exit, Grace, LaunchPlan, Proof
from tuner.launch.cage import Cage, MemoryUse
from tuner.launch.containerlog import LogCopy
from tuner.launch.containerproc import is_inside, memory_group, processes
from tuner.launch.containerspec import MARKER, ContainerIdentity, create_options
from tuner.launch.dockerapi import CALL_S, Docker, Refused
from tuner.launch.identity import Member, boot_id, read_stat
from tuner.launch.logfile import KeptLog
from tuner.launch.residue import cpu_seconds

_POLL = 0.05
_SETTLED_S = 5.0
"""How long the daemon may take to notice that a container has ended."""
_LOG_S = 10.0
_LOOK_S = 1.0
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
            return ContainerLaunch(
                identity, grace=Grace(), timeout=self._timeout, lost=str(error)
            )
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


class ContainerLaunch:
    """One engine as a container.

    Args:
        identity: The container; without an id where there is none.
        grace: Times of the stop ladder.
        timeout: Seconds that one call to the daemon may take.
        lost: Why the daemon could not be asked, where that is so.
    """

    def __init__(
        self,
        identity: ContainerIdentity,
        *,
        grace: Grace,
        timeout: float = CALL_S,
        lost: str = "",
    ) -> None:
        self._identity = identity
        self._grace = grace
        self._docker = Docker(timeout=timeout)
        self._lost = lost
        self._asked = False
        self._exit: Exit | None = None
        self._looked = 0.0
        self._cage = self._memory_group()
        self._use = MemoryUse() if self._cage is None else self._cage.use()
        log = Path(identity.log)
        self._kept = KeptLog(log, keep=log.is_file())
        can_copy = bool(identity.container) and log.parent.is_dir()
        self._copy = LogCopy(identity.container, log) if can_copy else None

    def _memory_group(self) -> Cage | None:
        one = self._identity
        return memory_group(one.pid, one.container) if one.pid else None

    @property
    def base_url(self) -> str:
        """Where it serves."""
        return f"http://{ports.HOST}:{self._identity.port}"

    @property
    def log(self) -> Path:
        """The file that its output is copied to."""
        return self._kept.path

    def identity(self) -> dict[str, Any]:
        """What to record so that it can be found again."""
        return self._identity.as_json()

    def members(self) -> tuple[Member, ...]:
        """All its live processes, docker's own first one included."""
        return processes(self._identity.container)

    def pids(self) -> tuple[int, ...]:
        """Process ids of the engine."""
        first = self._identity.pid if self._identity.init else 0
        return tuple(m.pid for m in self.members() if m.pid != first)

    def cpu_seconds(self) -> float:
        """Processor time used by its live processes; by the daemon's count where they are not seen."""
        members = self.members()
        if members or self._identity.pid or not self._identity.container:
            return cpu_seconds(members)
        with contextlib.suppress(DockerLost, Refused):
            return self._docker.cpu_seconds(self._identity.container) or 0.0
        return 0.0

    def memory(self) -> MemoryUse:
        """Its memory limit, how near it came to it, and whether it was killed for it."""
        if self._cage is not None and self._cage.exists:
            now = self._cage.use()
            # Between the look at the folder and its files the kernel may have taken them away.
            self._use = now if now.limit is not None else self._use
        return self._use

    def port_holder(self) -> str | None:
        """None: docker refuses to start a container whose port is taken."""
        return None

    # --- how it ended ----------------------------------------------------------------------------

    def exit(self) -> Exit | None:
        """How it ended, or None while it runs.

        A container in which a process was killed for the memory limit is ended here, whole: what is
        left of it would serve on, broken, or keep its memory for ever.
        """
        if self._exit is None:
            if self.memory().kills and self._runs():
                self._send(signal.SIGKILL)
            self._exit = self._look()
        return self._exit

    def _look(self) -> Exit | None:
        if not self._identity.container:
            return Exit(asked=self._asked)
        if self._runs():
            return None
        state = self._ended_state()
        if state is None:
            return Exit(asked=self._asked, over_limit=bool(self._use.kills))
        if state.get("Running"):
            return None
        if state.get("OOMKilled") and not self._use.kills:
            self._use = replace(self._use, kills=1)
        code = int(state.get("ExitCode", 0))
        # Docker's first process passes a signal on as a shell does: 128 and the signal's number.
        number = code - 128 if code > 128 and code - 128 in _SIGNALS else None
        return Exit(
            status=None if number else code,
            signal=number,
            asked=self._asked,
            over_limit=bool(self._use.kills),
        )

    def _runs(self) -> bool:
        """Whether its first process is alive, by the kernel where it is seen, else by the daemon."""
        one = self._identity
        if one.pid:
            return Member(one.pid, one.start_ticks).alive
        if time.monotonic() - self._looked < _LOOK_S:
            return True
        self._looked = time.monotonic()
        state = self._state()
        return state is not None and bool(state.get("Running"))

    def _ended_state(self) -> dict[str, Any] | None:
        """The daemon's word on the end; None where there is no such container or no daemon."""
        deadline = time.monotonic() + _SETTLED_S
        while True:
            state = self._state()
            if state is None or not state.get("Running") or time.monotonic() > deadline:
                return state
            time.sleep(_POLL)

    def _state(self) -> dict[str, Any] | None:
        if self._lost:
            return None
        try:
            known = self._docker.inspect(self._identity.container)
        except DockerLost as error:
            self._lost = str(error)
            return None
        return None if known is None else dict(known["State"])

    # --- the end ---------------------------------------------------------------------------------

    def stop(self, *, at_once: bool) -> Proof:
        """Climb the stop ladder, remove the container and prove that nothing is left."""
        self.exit()  # what ended before we asked must not be taken for our doing
        self._asked = True
        rungs = self._climb(at_once=at_once)
        self.exit()
        if self._copy is not None:
            self._copy.finish(_LOG_S)
        proof = self._prove(rungs)
        self._kept.close()
        self._docker.close()
        return proof

    def _climb(self, *, at_once: bool) -> tuple[str, ...]:
        rungs: list[str] = []
        if not at_once and self._alive() and self._send(signal.SIGTERM):
            rungs.append("TERM")
            self._wait_gone(self._grace.term)
        if self._alive():
            rungs.append("KILL")
            self._send(signal.SIGKILL)
            self._wait_gone(self._grace.kill)
        if members := self.members():
            # The daemon did not do it. What is in the container's control group is surely ours.
            for member in members:
                member.send(signal.SIGKILL)
            self._wait_gone(self._grace.kill)
        return tuple(rungs)

    def _alive(self) -> bool:
        return bool(self._identity.container) and (bool(self.members()) or self._runs())

    def _wait_gone(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._alive() and time.monotonic() < deadline:
            time.sleep(_POLL)

    def _send(self, number: signal.Signals) -> bool:
        """Signal its first process through the daemon; whether that was done."""
        if self._lost:
            return False
        try:
            return self._docker.kill(self._identity.container, number)
        except DockerLost as error:
            self._lost = str(error)
        except Refused:
            return False
        return False

    def _prove(self, rungs: tuple[str, ...]) -> Proof:
        deadline = time.monotonic() + self._grace.settle
        while True:
            left = self._removed()
            members = tuple(f"pid {m.pid} of {self._identity.words}" for m in self.members())
            proof = Proof(
                survivors=(*members, *filter(None, (left,))),
                port_open=bool(self._identity.container) and ports.is_open(self._identity.port),
                ladder=rungs,
            )
            if proof.gone or self._lost or time.monotonic() > deadline:
                return proof
            time.sleep(_POLL)

    def _removed(self) -> str:
        """Remove the container; what is left of it in words, empty when it is gone."""
        one = self._identity
        if not self._lost and not one.container:
            return ""
        try:
            if self._lost:
                raise DockerLost(self._lost)
            self._docker.remove(one.container)
            return one.words if self._docker.inspect(one.container) is not None else ""
        except DockerLost as error:
            self._lost = str(error)
            if one.boot != boot_id():
                return ""  # no container of ours is started again after a reboot
            return f"{one.words}, as far as is known: {error}"
        except Refused as error:
            return f"{one.words}: {error}"


_SIGNALS = frozenset(int(number) for number in signal.valid_signals())

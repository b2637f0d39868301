"""One engine as a container: watched by the kernel's word first, ended through the daemon, proven gone."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.errors import DockerLost
from tuner.launch import ports
from tuner.launch.base import Exit, Grace, Proof
from tuner.launch.cage import Cage, MemoryUse
from tuner.launch.containerlog import LogCopy
from tuner.launch.containerproc import memory_group, processes
from tuner.launch.containerspec import ContainerIdentity
from tuner.launch.dockerapi import CALL_S, Docker, Refused
from tuner.launch.identity import Member, boot_id
from tuner.launch.logfile import KeptLog
from tuner.launch.residue import cpu_seconds

_POLL = 0.05
_SETTLED_S = 5.0
"""How long the daemon may take to notice that a container has ended."""
_LOG_S = 10.0
_LOOK_S = 1.0


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
        self._copy = LogCopy(identity.container, log, timeout=timeout) if can_copy else None

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
        if one.container and not self._lost:
            try:
                self._docker.remove(one.container)
                return one.words if self._docker.inspect(one.container) is not None else ""
            except DockerLost as error:
                self._lost = str(error)
            except Refused as error:
                return f"{one.words}: {error}"
        if not self._lost or one.boot != boot_id():
            return ""  # no container of ours is started again after a reboot
        return f"{one.words}, as far as is known: {self._lost}"


_SIGNALS = frozenset(int(number) for number in signal.valid_signals())

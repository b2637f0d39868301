"""What a launcher promises, whether it starts a process or a container."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tuner.launch.cage import MemoryUse
from tuner.launch.identity import Member

LOG_NAME = "engine.log"


@dataclass(frozen=True, slots=True)
class Grace:
    """How long each rung of the stop ladder lasts, in seconds.

    Attributes:
        term: After TERM to the leader. vLLM's own handler gets its shutdown timeout and 15 s.
        kill: After KILL to all that is left.
        settle: For the proof that nothing is left.
    """

    term: float = 20.0
    kill: float = 10.0
    settle: float = 20.0


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """What an engine in a container needs beyond what a process needs.

    Attributes:
        image: The image; the daemon has it.
        mounts: Pairs of a path of this machine and where it is seen inside; all are read-only.
        devices: Device nodes to pass in.
        gpus: Whether every device of the NVIDIA runtime is passed in.
        shm: Bytes of the container's own /dev/shm.
        user: User and group as ``1000:1000``; None for whoever the image says.
        capabilities: Those that the engine keeps; it has no others.
    """

    image: str
    mounts: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()
    gpus: bool = False
    shm: int = 2**30
    user: str | None = None
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """All that is needed to start an engine.

    Attributes:
        argv: The whole command, the interpreter first, without ``--host`` and ``--port``.
        env: The whole environment of the engine; nothing of the tuner's own is added.
        folder: The trial's folder; it exists. The engine runs in it and logs into it.
        port: A port that was asked for, or None to have one chosen.
        memory_limit: Bytes of host memory that the engine may use, or None.
        grace: Times of the stop ladder.
        labels: Words that name the launch for recovery (study, trial).
        container: What it needs as a container; None where it is a process.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    folder: Path
    port: int | None = None
    memory_limit: int | None = None
    grace: Grace = field(default_factory=Grace)
    labels: dict[str, str] = field(default_factory=dict)
    container: ContainerPlan | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """How an engine ended.

    Attributes:
        status: Exit status, None when a signal ended it.
        signal: Number of the signal that ended it.
        asked: Whether the tuner had asked for it.
        over_limit: Whether it was killed for passing its limit of host memory.
    """

    status: int | None = None
    signal: int | None = None
    asked: bool = False
    over_limit: bool = False

    def as_json(self) -> dict[str, Any]:
        """The exit as JSON-ready data."""
        return {
            "status": self.status,
            "signal": self.signal,
            "asked": self.asked,
            "over_limit": self.over_limit,
        }


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether an engine is gone, and what is still there if it is not.

    Attributes:
        survivors: Live processes or containers of the engine.
        port_open: Whether its port still answers.
        shared_memory: Its files left in /dev/shm.
        ladder: The rungs that were needed, in order.
    """

    survivors: tuple[str, ...] = ()
    port_open: bool = False
    shared_memory: tuple[str, ...] = ()
    ladder: tuple[str, ...] = ()

    @property
    def gone(self) -> bool:
        """Whether nothing is left."""
        return not (self.survivors or self.port_open or self.shared_memory)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is left, in words; empty when it is gone."""
        found = []
        if self.survivors:
            found.append(f"still running: {', '.join(self.survivors)}")
        if self.port_open:
            found.append("its port still answers")
        if self.shared_memory:
            found.append(f"left in /dev/shm: {', '.join(self.shared_memory)}")
        return tuple(found)


class Launch(Protocol):
    """A live engine, or one that was found again after the tuner had died."""

    @property
    def base_url(self) -> str:
        """Where it serves, without a trailing slash."""

    @property
    def log(self) -> Path:
        """The file that its output goes to."""

    def exit(self) -> Exit | None:
        """How it ended, or None while it runs. Never blocks, never loses the answer."""

    def cpu_seconds(self) -> float:
        """Processor time used by the whole engine so far."""

    def members(self) -> tuple[Member, ...]:
        """Its live processes, each with the signs by which it is known."""

    def pids(self) -> tuple[int, ...]:
        """Process ids of the engine, for those who watch its memory."""

    def memory(self) -> MemoryUse:
        """Its memory limit, how near it came to it, and whether it was killed for it."""

    def port_holder(self) -> str | None:
        """Who else listens on its port, in words; None where nobody surely does."""

    def identity(self) -> dict[str, Any]:
        """What to record so that it can be found again; grows as its processes are seen."""

    def stop(self, *, at_once: bool) -> Proof:
        """End it and prove it gone.

        Args:
            at_once: Skip the friendly rung. An engine that is still starting gets no TERM: its
                handlers are not there yet, and its workers would be orphaned.
        """


class Launcher(Protocol):
    """Starts engines of one kind and finds them again."""

    def prepare(self, plan: LaunchPlan) -> dict[str, Any]:
        """Decide port, marker and names, and say what to record before anything is started."""

    def start(self, plan: LaunchPlan, intent: dict[str, Any]) -> Launch:
        """Start what was prepared. To be called from a thread that lives as long as the engine."""

    def recover(self, recorded: dict[str, Any]) -> Launch:
        """Take hold of what an earlier tuner recorded, alive or not, in order to stop it."""

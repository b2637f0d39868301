"""An engine's live processes: found again and again, remembered, and ended together."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

from tuner.launch import shm
from tuner.launch.cage import Cage
from tuner.launch.identity import Identity, Member
from tuner.launch.residue import find_members, zombies_of
from tuner.launch.subreaper import reap

_POLL = 0.05


class Tree:
    """The processes of one engine.

    Whoever was seen once is remembered, so that it is known again after it has lost its parent and
    its name. The tree is asked from several threads: the trial's, and the memory guard's.

    Args:
        identity: The engine as it was recorded.
        child: Whether its leader is a child of this process that has not been waited for. Its
            number cannot be given to another process then, nor can the group's.
    """

    def __init__(self, identity: Identity, *, child: bool) -> None:
        self._identity = identity
        self._child = child
        self._lock = threading.Lock()

    @property
    def identity(self) -> Identity:
        """The engine with all that was seen of it up to now."""
        return self._identity

    @property
    def cage(self) -> Cage | None:
        """Its own control group, while it has one."""
        folder = self._identity.cgroup
        return Cage(Path(folder)) if folder else None

    def members(self) -> tuple[Member, ...]:
        """Its live processes."""
        found = find_members(self._identity, guardian=os.getpid())
        with self._lock:
            known = {(m.pid, m.start_ticks) for m in self._identity.members}
            fresh = tuple(m for m in found if (m.pid, m.start_ticks) not in known)
            if fresh:
                self._identity = replace(self._identity, members=(*self._identity.members, *fresh))
        return found

    def see_shared_memory(self, members: tuple[Member, ...]) -> None:
        """Remember which files in /dev/shm its processes use."""
        seen = shm.mapped_by(m.pid for m in members)
        with self._lock:
            names = tuple(sorted(seen | set(self._identity.shm_seen)))
            self._identity = replace(self._identity, shm_seen=names)

    def wait_gone(self, seconds: float) -> tuple[Member, ...]:
        """Wait until nobody is left; whoever still is after that time."""
        deadline = time.monotonic() + seconds
        while (members := self.members()) and time.monotonic() < deadline:
            time.sleep(_POLL)
        return members

    def kill(self, seconds: float) -> tuple[Member, ...]:
        """KILL all of it until nobody is left; whoever still is after that time.

        The control group and the process group are killed whole, so that nothing can be born
        meanwhile; then each member by its own identity. What keeps forking is stopped first from
        the second round on: a stopped process has no more children.
        """
        deadline = time.monotonic() + seconds
        first = True
        while members := self.members():
            if self.cage is not None:
                self.cage.kill()
            if not first:
                members = self._stop_all(members)
            self._kill_group(members)
            for member in members:
                member.send(signal.SIGKILL)
            self.bury()
            if time.monotonic() > deadline:
                break
            time.sleep(0 if first else _POLL)
            first = False
        return members

    def _stop_all(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """Stop members until no new one shows up, a few rounds at most."""
        stopped: set[tuple[int, int]] = set()
        for _ in range(5):
            running = [m for m in members if (m.pid, m.start_ticks) not in stopped]
            if not running:
                break
            for member in running:
                member.send(signal.SIGSTOP)
                stopped.add((member.pid, member.start_ticks))
            members = self.members()
        return members

    def _kill_group(self, members: tuple[Member, ...]) -> None:
        """KILL the process group, while its number is surely the engine's.

        It is as long as the leader was not waited for, or as long as some member of the group
        cannot end by itself, because it is stopped.
        """
        group = self._identity.pid
        if not group or not (self._child or self._pinned(members)):
            return
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return  # nobody of the group is left but the zombie leader

    def _pinned(self, members: tuple[Member, ...]) -> bool:
        for member in members:
            stat = member.stat()
            if (
                stat is not None
                and stat.pgid == self._identity.pid
                and member.send(signal.SIGSTOP)
                and member.alive
            ):
                return True
        return False

    def bury(self) -> None:
        """Wait for those of its dead that came to this process."""
        reap(zombies_of(self._identity, os.getpid()))

    def buried(self) -> None:
        """Take note that the leader was waited for: its number may be anybody's from now on."""
        self._child = False

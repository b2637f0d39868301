"""Engines as processes of this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.errors import LaunchFailed
from tuner.launch import ports, shm
from tuner.launch.base import LOG_NAME, Exit, Grace, LaunchPlan, Proof
from tuner.launch.cage import Cage, MemoryUse, cage_in, find_home
from tuner.launch.guard import MemoryGuard
from tuner.launch.identity import Identity, Member, boot_id, now_ticks, read_stat
from tuner.launch.logfile import KeptLog
from tuner.launch.residue import MARKER_VARIABLE, cpu_seconds
from tuner.launch.subreaper import become_subreaper
from tuner.launch.tree import Tree

_POLL = 0.05
SCRATCH_PREFIX = "tuner-"


class ProcessLauncher:
    """Starts engines as children of this process, each in a session of its own.

    Args:
        cages: Whether an engine with a memory limit gets a control group, where one can be had.
    """

    def __init__(self, *, cages: bool = True) -> None:
        become_subreaper()
        self._home = find_home() if cages else None

    def prepare(self, plan: LaunchPlan) -> dict[str, Any]:
        """Choose the port, the marker and the names; make the log.

        What else is made for the engine is made by :meth:`start`, when the names are on record.
        """
        port = ports.free_port() if plan.port is None else ports.require_free(plan.port)
        log = plan.folder / LOG_NAME
        log.touch(mode=0o600)
        seen = log.stat()
        name = secrets.token_hex(6)
        caged = self._home is not None and plan.memory_limit is not None
        return Identity(
            boot=boot_id(),
            pid=0,
            start_ticks=0,
            born_after=now_ticks(),
            folder=str(plan.folder.resolve()),
            log=str(log.resolve()),
            log_inode=seen.st_ino,
            log_device=seen.st_dev,
            marker=secrets.token_hex(16),
            executable=str(Path(plan.argv[0]).resolve()),
            port=port,
            # Short, because engines put unix sockets there, whose paths have room for 107 bytes.
            scratch=str(Path(tempfile.gettempdir()).resolve() / f"{SCRATCH_PREFIX}{name}"),
            cgroup=str(cage_in(self._home, name).folder) if caged and self._home else None,
            shm_before=shm.snapshot(),
        ).as_json()

    def start(self, plan: LaunchPlan, intent: dict[str, Any]) -> ProcessLaunch:
        """Start the engine that was prepared.

        Raises:
            LaunchFailed: When the machine refuses to start the program.
        """
        identity = Identity.from_json(intent)
        try:
            Path(identity.scratch).mkdir(mode=0o700)
            identity = _caged(identity, plan.memory_limit)
            child = _spawn(plan, identity)
        except OSError as error:
            _discard(identity)
            raise LaunchFailed(f"{plan.argv[0]} cannot be started: {error}") from error
        stat = read_stat(child.pid)
        identity = replace(identity, pid=child.pid, start_ticks=stat.start_ticks if stat else 0)
        identity = _admitted(identity)
        return ProcessLaunch(
            identity, grace=plan.grace, child=child, memory_limit=plan.memory_limit
        )

    def recover(self, recorded: dict[str, Any]) -> ProcessLaunch:
        """Take hold of an engine that an earlier tuner started, or meant to start."""
        return ProcessLaunch(
            Identity.from_json(recorded), grace=Grace(), child=None, memory_limit=None
        )


class ProcessLaunch:
    """One engine as a tree of processes."""

    def __init__(
        self,
        identity: Identity,
        *,
        grace: Grace,
        child: subprocess.Popen[bytes] | None,
        memory_limit: int | None,
    ) -> None:
        self._tree = Tree(identity, child=child is not None)
        self._grace = grace
        self._child = child
        self._asked = False
        self._exit: Exit | None = None
        self._log = KeptLog(Path(identity.log), keep=child is not None)
        self._guard: MemoryGuard | None = None
        if child is not None and memory_limit is not None:
            self._guard = MemoryGuard(self.members, memory_limit, self._tree.cage)
            self._guard.start()

    @property
    def base_url(self) -> str:
        """Where it serves."""
        return f"http://{ports.HOST}:{self._tree.identity.port}"

    @property
    def log(self) -> Path:
        """The file that its output goes to; put back where somebody removed or rotated it."""
        return self._log.path

    def members(self) -> tuple[Member, ...]:
        """Its live processes; those seen once are remembered."""
        return self._tree.members()

    def pids(self) -> tuple[int, ...]:
        """Process ids of its live processes."""
        return tuple(m.pid for m in self.members())

    def cpu_seconds(self) -> float:
        """Processor time used by its live processes."""
        members = self.members()
        self._tree.see_shared_memory(members)
        return cpu_seconds(members)

    def memory(self) -> MemoryUse:
        """Its memory limit, how near it came to it, and whether it was killed for it."""
        return MemoryUse() if self._guard is None else self._guard.use()

    def port_holder(self) -> str | None:
        """Who else listens on its port, in words; None where nobody surely does."""
        port = self._tree.identity.port
        found = ports.strangers(port, self.pids()) if port is not None else ()
        return "; ".join(found) or None

    def identity(self) -> dict[str, Any]:
        """What to record so that it can be found again."""
        self._tree.see_shared_memory(self.members())
        return self._tree.identity.as_json()

    def exit(self) -> Exit | None:
        """How its leader ended, or None while it runs.

        The leader is looked at but not reaped: as long as it is a zombie its number cannot be
        given to anyone else, so the group can still be signalled safely.
        """
        if self._exit is None:
            self._exit = self._look()
        return self._exit

    def _look(self) -> Exit | None:
        if self._child is None:
            if self._alive():
                return None
            return Exit(asked=self._asked, over_limit=self._killed())
        if self._child.returncode is None:
            info = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if info is None:
                return None
            killed = info.si_code in {os.CLD_KILLED, os.CLD_DUMPED}
            code = -info.si_status if killed else info.si_status
        else:
            code = self._child.returncode
        status, number = (None, -code) if code < 0 else (code, None)
        return Exit(status=status, signal=number, asked=self._asked, over_limit=self._killed())

    def _alive(self) -> bool:
        identity = self._tree.identity
        return identity.this_boot and identity.leader.alive

    def _killed(self) -> bool:
        return bool(self.memory().kills)

    # --- the end ---------------------------------------------------------------------------------

    def stop(self, *, at_once: bool) -> Proof:
        """Climb the stop ladder and prove that nothing is left."""
        self.exit()  # what ended before we asked must not be taken for our doing
        self._asked = True
        if not self._tree.identity.this_boot:
            _discard(self._tree.identity)
            return Proof()  # nothing survives a reboot, and its numbers are other people's now
        rungs = self._climb(at_once=at_once)
        if self._guard is not None:
            self._guard.stop()
        self.exit()
        self.memory()  # the last look, before the control group is removed
        self._bury()
        proof = self._prove(rungs)
        self._log.close()
        return proof

    def _climb(self, *, at_once: bool) -> tuple[str, ...]:
        rungs: list[str] = []
        members = self.members()
        self._tree.see_shared_memory(members)
        if not at_once and self._ask_to_end():
            rungs.append("TERM")
            members = self._tree.wait_gone(self._grace.term)
        if members:
            rungs.append("KILL")
            self._tree.kill(self._grace.kill)
        return tuple(rungs)

    def _ask_to_end(self) -> bool:
        """TERM to the leader, and to go on if it is stopped: a stopped process hears nothing."""
        leader = self._tree.identity.leader
        if not leader.alive or not leader.send(signal.SIGTERM):
            return False
        stat = leader.stat()
        if stat is not None and stat.state in "Tt":
            leader.send(signal.SIGCONT)
        return True

    def _bury(self) -> None:
        if self._child is not None and not self._tree.identity.leader.alive:
            self._child.wait()
            self._tree.buried()
        self._tree.bury()

    def _prove(self, rungs: tuple[str, ...]) -> Proof:
        deadline = time.monotonic() + self._grace.settle
        identity = self._tree.identity
        while True:
            self._bury()
            members = self.members()
            proof = Proof(
                survivors=tuple(_describe(m) for m in members),
                port_open=identity.port is not None
                and ports.still_held(identity.port, tuple(m.pid for m in members)),
                shared_memory=() if members else self._sweep(),
                ladder=rungs,
            )
            if proof.gone:
                _discard(identity)
            if proof.gone or time.monotonic() > deadline:
                return proof
            time.sleep(_POLL)

    def _sweep(self) -> tuple[str, ...]:
        """Remove the engine's shared memory; what cannot be removed is left to be told."""
        identity = self._tree.identity
        theirs = shm.named_by((identity.pid, *(m.pid for m in identity.members)))
        return shm.sweep(identity.shm_before, frozenset(identity.shm_seen) | theirs)


def _spawn(plan: LaunchPlan, identity: Identity) -> subprocess.Popen[bytes]:
    env = {
        **plan.env,
        MARKER_VARIABLE: identity.marker,
        "SPT_NOENV": "1",  # keeps setproctitle from wiping the environment, and the marker with it
        "TMPDIR": identity.scratch,
    }
    with Path(identity.log).open("ab") as out:
        return subprocess.Popen(
            [*plan.argv, "--host", ports.HOST, "--port", str(identity.port)],
            cwd=plan.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
        )


def _caged(identity: Identity, limit: int | None) -> Identity:
    """The engine with its control group made; without one where the kernel refuses."""
    if identity.cgroup is None or limit is None:
        return identity
    try:
        Cage(Path(identity.cgroup)).open(limit)
    except OSError:
        return replace(identity, cgroup=None)
    return identity


def _admitted(identity: Identity) -> Identity:
    """The engine with its leader in the control group; it has had no time to start anything yet."""
    if identity.cgroup is None:
        return identity
    cage = Cage(Path(identity.cgroup))
    try:
        cage.admit(identity.pid)
    except ProcessLookupError:
        return identity  # it has ended already
    except OSError:
        cage.remove()
        return replace(identity, cgroup=None)
    return identity


def _discard(identity: Identity) -> None:
    """Remove what was made for an engine outside of its trial's folder."""
    scratch = Path(identity.scratch)
    if scratch.name.startswith(SCRATCH_PREFIX):
        shutil.rmtree(scratch, ignore_errors=True)
    if identity.cgroup is not None:
        Cage(Path(identity.cgroup)).remove()


def _describe(member: Member) -> str:
    return f"pid {member.pid} ({', '.join(member.evidence)})"

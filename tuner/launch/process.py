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

from tuner.launch import ports, shm
from tuner.launch.base import LOG_NAME, Exit, Grace, LaunchPlan, Proof
from tuner.launch.guard import MemoryGuard
from tuner.launch.identity import Identity, Member, boot_id, now_ticks, read_stat
from tuner.launch.residue import MARKER_VARIABLE, cpu_seconds, find_members
from tuner.launch.subreaper import become_subreaper, reap

_POLL = 0.1


class ProcessLauncher:
    """Starts engines as children of this process, each in a session of its own."""

    def __init__(self) -> None:
        become_subreaper()

    def prepare(self, plan: LaunchPlan) -> dict[str, Any]:
        """Choose the port and the marker; make the log and the scratch folder."""
        port = ports.free_port() if plan.port is None else ports.require_free(plan.port)
        log = plan.folder / LOG_NAME
        log.touch(mode=0o600)
        scratch = tempfile.mkdtemp(prefix="tuner-")
        return Identity(
            boot=boot_id(),
            pid=0,
            start_ticks=0,
            born_after=now_ticks(),
            folder=str(plan.folder.resolve()),
            log=str(log.resolve()),
            log_inode=log.stat().st_ino,
            marker=secrets.token_hex(16),
            executable=str(Path(plan.argv[0]).resolve()),
            port=port,
            scratch=scratch,
            shm_before=shm.snapshot(),
        ).as_json()

    def start(self, plan: LaunchPlan, intent: dict[str, Any]) -> ProcessLaunch:
        """Start the engine that was prepared."""
        identity = Identity.from_json(intent)
        argv = [*plan.argv, "--host", ports.HOST, "--port", str(identity.port)]
        env = {
            **plan.env,
            MARKER_VARIABLE: identity.marker,
            "SPT_NOENV": "1",  # keeps setproctitle from wiping the environment, and the marker with it
            "TMPDIR": identity.scratch,
        }
        with Path(identity.log).open("ab") as out:
            child = subprocess.Popen(
                argv,
                cwd=plan.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )
        stat = read_stat(child.pid)
        identity = replace(identity, pid=child.pid, start_ticks=stat.start_ticks if stat else 0)
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
        self._identity = identity
        self._grace = grace
        self._child = child
        self._asked = False
        self._exit: Exit | None = None
        self._guard = MemoryGuard(self.members, memory_limit) if memory_limit is not None else None
        if self._guard is not None:
            self._guard.start()

    @property
    def base_url(self) -> str:
        """Where it serves."""
        return f"http://{ports.HOST}:{self._identity.port}"

    @property
    def log(self) -> Path:
        """The file that its output goes to."""
        return Path(self._identity.log)

    def members(self) -> tuple[Member, ...]:
        """Its live processes; those seen once are remembered."""
        found = find_members(self._identity, guardian=os.getpid())
        known = {(m.pid, m.start_ticks) for m in self._identity.members}
        fresh = tuple(m for m in found if (m.pid, m.start_ticks) not in known)
        if fresh:
            self._identity = replace(self._identity, members=(*self._identity.members, *fresh))
        return found

    def pids(self) -> tuple[int, ...]:
        """Process ids of its live processes."""
        return tuple(m.pid for m in self.members())

    def cpu_seconds(self) -> float:
        """Processor time used by its live processes."""
        members = self.members()
        self._see_shared_memory(members)
        return cpu_seconds(members)

    def _see_shared_memory(self, members: tuple[Member, ...]) -> None:
        seen = shm.mapped_by(m.pid for m in members) | set(self._identity.shm_seen)
        self._identity = replace(self._identity, shm_seen=tuple(sorted(seen)))

    def identity(self) -> dict[str, Any]:
        """What to record so that it can be found again."""
        self._see_shared_memory(self.members())
        return self._identity.as_json()

    def exit(self) -> Exit | None:
        """How its leader ended, or None while it runs.

        The leader is looked at but not reaped: as long as it is a zombie its number cannot be
        given to anyone else, so the group can still be signalled safely.
        """
        if self._exit is None:
            self._exit = self._look()
        return self._exit

    def _look(self) -> Exit | None:
        over = self._guard is not None and self._guard.fired
        if self._child is None:
            return None if self._identity.leader.alive else Exit(asked=self._asked, over_limit=over)
        if self._child.returncode is None:
            info = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if info is None:
                return None
            killed = info.si_code in {os.CLD_KILLED, os.CLD_DUMPED}
            code = -info.si_status if killed else info.si_status
        else:
            code = self._child.returncode
        status, number = (None, -code) if code < 0 else (code, None)
        return Exit(status=status, signal=number, asked=self._asked, over_limit=over)

    def stop(self, *, at_once: bool) -> Proof:
        """Climb the stop ladder and prove that nothing is left."""
        rungs: list[str] = []
        self.exit()  # what ended before we asked must not be taken for our doing
        self._asked = True
        members = self.members()
        self._see_shared_memory(members)
        if not at_once and self._identity.leader.send(signal.SIGTERM):
            rungs.append("TERM")
            members = self._wait_gone(self._grace.term)
        if members:
            rungs.append("KILL")
            self._kill()
        if self._guard is not None:
            self._guard.stop()
        self.exit()
        self._bury()
        return self._prove(tuple(rungs))

    def _wait_gone(self, seconds: float) -> tuple[Member, ...]:
        deadline = time.monotonic() + seconds
        while (members := self.members()) and time.monotonic() < deadline:
            time.sleep(_POLL)
        return members

    def _kill(self) -> None:
        """KILL the group while its number is surely ours, then each member by its own identity."""
        deadline = time.monotonic() + self._grace.kill
        while (members := self.members()) and time.monotonic() < deadline:
            if self._child is not None and self._child.returncode is None:
                self._kill_group()
            for member in members:
                member.send(signal.SIGKILL)
            time.sleep(_POLL)

    def _kill_group(self) -> None:
        try:
            os.killpg(self._identity.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return  # nobody of the group is left but the zombie leader

    def _bury(self) -> None:
        if self._child is not None and not self._identity.leader.alive:
            self._child.wait()
        reap(self._identity.members)

    def _prove(self, rungs: tuple[str, ...]) -> Proof:
        deadline = time.monotonic() + self._grace.settle
        while True:
            self._bury()
            proof = Proof(
                survivors=tuple(self._describe(m) for m in self.members()),
                port_open=self._identity.port is not None and ports.is_open(self._identity.port),
                shared_memory=self._sweep(),
                ladder=rungs,
            )
            if proof.gone or time.monotonic() > deadline:
                if proof.gone:
                    shutil.rmtree(self._identity.scratch, ignore_errors=True)
                return proof
            time.sleep(_POLL)

    def _sweep(self) -> tuple[str, ...]:
        """Remove the engine's shared memory; what cannot be removed is left to be told."""
        if self.members() or not self._identity.this_boot:
            return ()
        return shm.sweep(self._identity.shm_before, frozenset(self._identity.shm_seen))

    @staticmethod
    def _describe(member: Member) -> str:
        return f"pid {member.pid} ({', '.join(member.evidence)})"

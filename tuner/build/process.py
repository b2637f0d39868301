"""Runs one step of a build: a child in a session of its own, its output in the log, nothing left after."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_POLL_S = 0.05
_REPORT_S = 0.25
_GRACE_S = 5.0
_TAIL_BYTES = 8192

_KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ",
    "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
    "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_TRUSTED_HOST",
    "PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY", "PIP_CACHE_DIR", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES",
    "CC", "CXX", "MAX_JOBS", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
)  # fmt: skip


def build_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a step: what reaching a registry and compiling need, and nothing else.

    A PYTHONPATH, an LD_PRELOAD or a PIP_TARGET of the user's shell would end up inside the engine.
    """
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONNOUSERSITE": "1"}
    return env | dict(extra or {})


def run_logged(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str],
    cwd: Path,
    timeout_s: float,
    report: Callable[[str], None],
    keep: tuple[int, ...] = (),
) -> int:
    """Run a program to its end with its output appended to a log.

    Args:
        argv: The program and its arguments.
        log: File that its output is appended to.
        env: Its whole environment.
        cwd: Its working folder.
        timeout_s: When to stop it.
        report: Called with its last line every quarter of a second. What it raises stops the program
            and is raised on.
        keep: Handles that it inherits.

    Returns:
        Its exit status: negative for the signal that ended it, 124 when its time ran out.
    """
    with log.open("ab") as out:
        start = out.tell()
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            pass_fds=keep,
        )
    deadline = time.monotonic() + timeout_s
    reported = 0.0
    try:
        while not _ended(child.pid):
            now = time.monotonic()
            if now > deadline:
                _stop_group(child.pid)
                _note(log, f"stopped after {timeout_s:.0f} s")
                return 124
            if now - reported >= _REPORT_S:
                report(last_line(log, start))
                reported = now
            time.sleep(_POLL_S)
        report(last_line(log, start))
    except BaseException:
        _stop_group(child.pid)
        raise
    finally:
        # The leader is still unreaped here, so its group cannot be anyone else's yet.
        _signal_group(child.pid, signal.SIGKILL)
        child.wait()
    return child.returncode


def last_line(log: Path, start: int = 0) -> str:
    """The last line with anything on it that a log has after ``start`` bytes."""
    lines = [line for line in tail(log, start=start).splitlines() if line.strip()]
    return lines[-1].rsplit("\r", 1)[-1].strip() if lines else ""


def tail(log: Path, *, lines: int | None = None, start: int = 0) -> str:
    """The end of a log: its last few KiB after ``start`` bytes, cut to ``lines`` lines."""
    with log.open("rb") as source:
        end = source.seek(0, os.SEEK_END)
        source.seek(max(start, end - _TAIL_BYTES))
        text = source.read().decode("utf-8", "replace")
    if lines is None:
        return text
    kept = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(kept[-lines:])


def _ended(pid: int) -> bool:
    """Whether a child has ended, without reaping it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _stop_group(pid: int) -> None:
    """Ask a child's group to end, and give it a moment before it is killed."""
    _signal_group(pid, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while not _ended(pid) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _note(log: Path, text: str) -> None:
    with log.open("a", encoding="utf-8") as out:
        out.write(f"\n{text}\n")

"""From a failed step to the error that a person can act on."""

from __future__ import annotations

import re
from pathlib import Path

from tuner.build.process import tail
from tuner.errors import BuildFailed, NoSpaceLeft, TunerError

_TAIL_LINES = 12
_NO_SPACE = re.compile(r"No space left on device|\[Errno 28\]|Disk quota exceeded")

_MENDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"ensurepip is not available|No module named '?(ensurepip|venv)"),
        "the interpreter cannot make virtual environments: on Debian, apt-get install python3-venv",
    ),
    (
        re.compile(r"No matching distribution found for torch==[\w.]+\+cpu"),
        "no CPU build of torch on the configured indexes: set TUNER_TORCH_INDEX to PyTorch's CPU index",
    ),
    (
        re.compile(r"No matching distribution found for (\S+)"),
        r"\1 is on none of the configured indexes and in no wheelhouse: add its wheel, or name an index",
    ),
    (
        re.compile(
            r"Temporary failure in name resolution|NewConnectionError|ConnectTimeoutError|Network is unreachable"
        ),
        "the package index cannot be reached: check the network or the proxy, or give a wheelhouse",
    ),
    (
        re.compile(r"(?:command '?|: )(?:gcc|g\+\+|cc|c\+\+|x86_64-linux-gnu-gcc)'?(?: failed|: not found)"),
        "there is no C++ compiler: on Debian, apt-get install g++",
    ),
    (
        re.compile(r"(lib[\w+-]+\.so[\w.]*): cannot open shared object file"),
        r"the library \1 is missing: install the package that brings it",
    ),
    (
        re.compile(r"could not select device driver|nvidia-container-(?:cli|runtime)"),
        "docker cannot give a container NVIDIA devices: install the NVIDIA container toolkit, and the driver",
    ),
    (
        re.compile(r"error gathering device information .*?\"(/dev/[^\"]+)\""),
        r"the device \1 is not there: load its driver on this machine",
    ),
)  # fmt: skip


def failed(step: str, log: Path, *, start: int = 0) -> TunerError:
    """The error for a step that ended badly, with the last lines of the log and what to do.

    Args:
        step: The step.
        log: The build's log.
        start: Where in the log the step's own output begins.
    """
    text = tail(log, start=start)
    if _NO_SPACE.search(text):
        return NoSpaceLeft(
            f"the disk was full in step {step!r} of the build (log: {log})",
            mend="free some space (tuner engine list --prune), or point TUNER_CACHE at another disk",
        )
    return BuildFailed(
        step, log=log, tail=tail(log, lines=_TAIL_LINES, start=start), mend=mend_for(text)
    )


def mend_for(text: str) -> str | None:
    """What to do about a failure, from the end of its log: the step's own word first."""
    said = re.findall(r"^(?:#\d+ [\d.]+ )?mend: (.+)$", text, flags=re.MULTILINE)
    if said:
        return str(said[-1]).strip()
    for pattern, mend in _MENDS:
        if found := pattern.search(text):
            return found.expand(mend) if found.groups() else mend
    return None

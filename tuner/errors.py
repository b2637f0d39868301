"""Every error that tuner raises on purpose.

::

    TunerError
    ├── UserError                 the person at the keyboard can mend it; exit 2, one line
    │   ├── SpaceError            a search space that cannot be accepted (file and line)
    │   ├── RecipeError           a recipe that cannot be accepted (file and line)
    │   ├── StudyConflict         the study's name is in use with another search space
    │   ├── StudyNotFound         no such study or trial in this state folder
    │   ├── StateUnusable         the state folder cannot be written, or another tuner holds it
    │   ├── PortTaken             a port that was asked for is held by someone else
    │   ├── ModelUnreadable       a model folder whose config or weights cannot be understood
    │   └── NoSpaceLeft           too little disk for what was asked
    ├── BuildFailed               an engine that could not be built (step, log, last lines)
    ├── LaunchFailed              an engine that did not come up (the verdict says why)
    ├── DockerLost                Docker's daemon does not answer, or not in time
    ├── ResidueFound              something of an earlier engine is still there
    ├── Quarantined               nothing is started on a device until a person has looked
    ├── TelemetryLost             a device's driver or its tool does not answer
    ├── NeedsMending              no engine can run until a person has mended something (the verdict says what)
    ├── LedgerCorrupt             the ledger was read and is not what tuner wrote
    ├── LedgerClosed              the ledger was asked after it was given back: its tuner is ending
    └── NothingFeasible           the study ended and no trial passed its gates; exit 3

A :class:`UserError` is printed as one line, without a traceback. Anything that is not a
:class:`TunerError` is a defect of tuner and keeps its traceback. What a task group wraps is raised
as itself again by :func:`ungrouped`, so that nobody else has to think of groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "BuildFailed",
    "DockerLost",
    "LaunchFailed",
    "LedgerClosed",
    "LedgerCorrupt",
    "ModelUnreadable",
    "NeedsMending",
    "NoSpaceLeft",
    "NothingFeasible",
    "PortTaken",
    "Quarantined",
    "RecipeError",
    "ResidueFound",
    "SpaceError",
    "StateUnusable",
    "StudyConflict",
    "StudyNotFound",
    "TelemetryLost",
    "TunerError",
    "UserError",
    "last_words",
    "on_purpose",
    "ungrouped",
]


class TunerError(Exception):
    """The base of every error that tuner raises on purpose."""

    exit_code = 1


class UserError(TunerError):
    """A mistake that the person at the keyboard can mend.

    Args:
        message: What is wrong, in one sentence.
        file: The file at fault, where there is one.
        line: The line in that file, counted from 1.
        mend: What to do about it, in one sentence.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        file: Path | None = None,
        line: int | None = None,
        mend: str | None = None,
    ) -> None:
        self.message = message
        self.file = file
        self.line = line
        self.mend = mend
        super().__init__(self._line())

    def _line(self) -> str:
        where = ""
        if self.file is not None:
            where = f"{self.file}:{self.line}: " if self.line is not None else f"{self.file}: "
        mend = f" — {self.mend}" if self.mend else ""
        return f"{where}{self.message}{mend}"


class SpaceError(UserError):
    """Raised when a search space cannot be accepted."""


class RecipeError(UserError):
    """Raised when an engine recipe cannot be accepted."""


class StudyConflict(UserError):
    """Raised when a study's name is in use with another search space."""


class StudyNotFound(UserError):
    """Raised when a study or a trial is not in this state folder."""


class StateUnusable(UserError):
    """Raised when the state folder cannot be written or another tuner holds it."""


class PortTaken(UserError):
    """Raised when a port that was asked for is held by someone else."""


class ModelUnreadable(UserError):
    """Raised when a model folder's config or weights cannot be understood."""


class NoSpaceLeft(UserError):
    """Raised when a disk is too full for what was asked."""


class BuildFailed(TunerError):
    """Raised when an engine could not be built.

    Args:
        step: The step that failed, by name.
        log: Where the whole build log lies.
        tail: Its last lines.
        mend: What to do about it, in one sentence.
    """

    exit_code = 2

    def __init__(self, step: str, *, log: Path, tail: str, mend: str | None = None) -> None:
        self.step = step
        self.log = log
        self.tail = tail
        self.mend = mend
        hint = f"\n{mend}" if mend else ""
        super().__init__(
            f"the engine could not be built: step {step!r} failed\n{tail}\nwhole log: {log}{hint}"
        )


class LaunchFailed(TunerError):
    """Raised when an engine did not come up; the verdict says why."""


class DockerLost(TunerError):
    """Raised when Docker's daemon does not answer, or not in time."""


class ResidueFound(TunerError):
    """Raised when something of an earlier engine is still there."""


class Quarantined(TunerError):
    """Raised when a device, or the host, is in quarantine."""


class TelemetryLost(TunerError):
    """Raised when a device's driver or its tool does not answer."""


class NeedsMending(TunerError):
    """Raised when no engine can run until a person has mended something; the verdict says what."""


class LedgerCorrupt(TunerError):
    """Raised when the ledger was read and is not what tuner wrote."""


class LedgerClosed(TunerError):
    """Raised when the ledger is asked after it was closed."""


class NothingFeasible(TunerError):
    """Raised when a study ended and no trial passed its gates."""

    exit_code = 3


def on_purpose(error: BaseException) -> tuple[TunerError, ...]:
    """The errors that were raised on purpose: the error itself, or those in a group, however deep.

    None where a defect is among them: a defect keeps its traceback, whatever was raised beside it.
    """
    if isinstance(error, TunerError):
        return (error,)
    if not isinstance(error, BaseExceptionGroup):
        return ()
    parts = [on_purpose(one) for one in error.exceptions]
    return tuple(one for part in parts for one in part) if all(parts) else ()


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raise what a task group wrapped as itself.

    Of several errors the first is raised, and what the others say is noted on it. A group with a
    defect in it stays a group.

    Raises:
        TunerError: The first of those that were raised on purpose.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        first, *others = on_purpose(group) or (None,)
        if first is None:
            raise
        for said in dict.fromkeys(map(str, filter(None, others))):
            if said != str(first):
                first.add_note(said)
        raise first from None


def last_words(error: TunerError) -> str:
    """What a program prints when an error ends it: a line for it, and one for each noted beside it."""
    return "\n".join(f"tuner: {said}" for said in (error, *getattr(error, "__notes__", ())))

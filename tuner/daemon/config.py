"""What a daemon is told by ``daemon.toml`` in its state folder: where it listens, how large it may grow, whom it tells.

It names programs that are run, so it cannot be changed through the API, and nobody else may be able
to write it.
"""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from tuner.daemon.home import CONFIG
from tuner.errors import UserError
from tuner.quantity import parse_bytes, parse_seconds


class Section(BaseModel):
    """A section of the file; a key that is not known is a mistake, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


Word = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*$")]
Size = Annotated[int, BeforeValidator(lambda v: parse_bytes(v) if isinstance(v, str) else v)]
Time = Annotated[float, BeforeValidator(lambda v: parse_seconds(v) if isinstance(v, str) else v)]
Occasion = Literal["finished", "best", "quarantine"]


class Listen(Section):
    """Where it listens besides its socket."""

    tcp: Annotated[int, Field(ge=0, le=65535)] | None = None
    """A port on 127.0.0.1; 0 for any that is free."""


class State(Section):
    """The state folder."""

    size: Annotated[Size, Field(ge=2**26)] = 20 * 2**30
    """Bytes that it is kept below: artifacts of trials that lost are packed, then removed."""


class Events(Section):
    """Who is told of what happens."""

    on: tuple[Occasion, ...] = ("finished", "best", "quarantine")
    """A study has ended; a trial is a new best; a device was put in quarantine."""
    command: Annotated[tuple[Word, ...], Field(min_length=1)] | None = None
    """A program and its arguments, no shell. It is given the event as JSON on its standard input."""
    webhook: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")] | None = None
    """An address to which the event is posted as JSON. It is never shown: it may hold a token."""
    timeout: Annotated[Time, Field(gt=0, le=600)] = 30.0
    """Seconds that either may take."""


class Config(Section):
    """The whole file."""

    listen: Listen = Listen()
    state: State = State()
    events: Events = Events()


def read_config(state: Path) -> Config:
    """The configuration of a state folder's daemon; all defaults where there is none.

    Raises:
        UserError: When the file cannot be accepted, or others may write it.
    """
    file = state / CONFIG
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            if found.st_uid not in {os.getuid(), 0} or stat.S_IMODE(found.st_mode) & 0o022:
                raise UserError(
                    "others may write this file, and it names programs that are run",
                    file=file,
                    mend=f"chmod go-w {file}",
                )
            return Config.model_validate(tomllib.load(opened))
    except FileNotFoundError:
        return Config()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"not TOML: {error}", file=file) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{where}: {message}", file=file) from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", file=file) from None

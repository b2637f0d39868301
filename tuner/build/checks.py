"""The checks of a recipe: what must be true of the finished engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tuner.build.terms import Line, Name, Strict

When = Literal["build", "verify", "both"]


class _Check(Strict):
    name: Name
    when: When = "both"
    mend: Line | None = None


class ImportCheck(_Check):
    """A module that must import, at a version where one is named (a local ``+cpu`` part is ignored)."""

    do: Literal["import"]
    module: Line
    version: Line | None = None


class CallableCheck(_Check):
    """Something that must be there to be called: ``package.module:attribute.attribute``."""

    do: Literal["callable"]
    target: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]


class PluginCheck(_Check):
    """An entry point that must be declared and load."""

    do: Literal["plugin"]
    group: Line
    entry: Line


class LibraryCheck(_Check):
    """A shared library that the loader must find."""

    do: Literal["library"]
    library: Line


class TextCheck(_Check):
    """A file that must hold a line (leading and trailing blanks aside), as after a patch."""

    do: Literal["text"]
    file: Line
    has: Line


class LineEndsCheck(_Check):
    """Files whose line ends must be LF; glob patterns allowed, and each must match something."""

    do: Literal["line-ends"]
    files: tuple[Line, ...] = Field(min_length=1)


class FileCheck(_Check):
    """A file, folder or link that must be there, with what it points to."""

    do: Literal["file"]
    file: Line


class CommandCheck(_Check):
    """A program that must exit with 0, and print ``prints`` where that is given."""

    do: Literal["command"]
    argv: tuple[Line, ...] = Field(min_length=1)
    prints: Line | None = None
    timeout_s: int = Field(default=120, ge=1)


Check = Annotated[
    ImportCheck
    | CallableCheck
    | PluginCheck
    | LibraryCheck
    | TextCheck
    | LineEndsCheck
    | FileCheck
    | CommandCheck,
    Field(discriminator="do"),
]

"""The steps of a recipe: what is done to its base, in order."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from tuner.build.terms import EnvName, Line, Name, Strict

_SWALLOWS = re.compile(r"\|\|\s*(?:true\b|:|exit\s+0)|;\s*true\b|(?<!\|)\|\s*tee\b|\bset \+e\b")


class _Step(Strict):
    name: Name


class PipStep(_Step):
    """Installs packages from a lock file of the recipe, or one package from the engine's sources.

    Attributes:
        requirements: The lock file, a path inside the recipe's folder.
        source: A package in the folder ``engine/``, by name.
        deps: Whether pip may install what the packages ask for beyond the file.
        index_env: Environment variable in which the user may name one more package index.
    """

    do: Literal["pip"]
    requirements: Line | None = None
    source: Name | None = None
    deps: bool = False
    index_env: EnvName | None = None

    @model_validator(mode="after")
    def _one(self) -> PipStep:
        if (self.requirements is None) == (self.source is None):
            raise ValueError("a pip step names either requirements or source")
        return self


class CopyStep(_Step):
    """Puts a file of the recipe into the engine, byte for byte.

    Attributes:
        file: The file, a path inside the recipe's folder.
        to: Where it goes; ``{site}``, ``{root}`` and ``{prefix}`` are replaced.
        mode: Permission bits in octal.
    """

    do: Literal["copy"]
    file: Line
    to: Line
    mode: Annotated[str, Field(pattern=r"^0?[0-7]{3}$")] = "644"


class Edit(Strict):
    """One replacement of text in a file: the old text must be there exactly ``count`` times."""

    old: str = Field(min_length=1)
    new: str
    count: int = Field(default=1, ge=1)


class PatchStep(_Step):
    """Changes files of the engine, with proof before and after.

    Attributes:
        targets: The files; the same file reached by two paths is patched once.
        diff: A unified diff of one file, a path inside the recipe's folder; applied without fuzz.
        edits: Or replacements, applied in order.
        before: Lines that must be in the file before.
        verify: A line that must be in the file afterwards.
    """

    do: Literal["patch"]
    targets: tuple[Line, ...] = Field(min_length=1)
    diff: Line | None = None
    edits: tuple[Edit, ...] = ()
    before: tuple[Line, ...] = Field(min_length=1)
    verify: Line

    @model_validator(mode="after")
    def _one(self) -> PatchStep:
        if (self.diff is None) == (not self.edits):
            raise ValueError("a patch step has either a diff or edits")
        return self


class LinkStep(_Step):
    """Makes a symbolic link, to the first of several files that is there.

    Attributes:
        link: Where the link is made.
        to: Candidates, glob patterns allowed, best first.
    """

    do: Literal["link"]
    link: Line
    to: tuple[Line, ...] = Field(min_length=1)


class RunStep(_Step):
    """Runs a program inside the engine; any exit status but 0 stops the build.

    Attributes:
        argv: The program and its arguments, no shell; ``{python}``, ``{recipe}`` … are replaced.
        timeout_s: Longest time it may take, in seconds.
        needs_module: Skip the step, and say so, where the engine has no such Python module.
        needs_program: Skip the step, and say so, where there is no such program, as a compiler. Whether
            there is one is part of the engine's key on this machine.
        env: Environment variables for this program only.
    """

    do: Literal["run"]
    argv: tuple[Line, ...] = Field(min_length=1)
    timeout_s: int = Field(default=1800, ge=1)
    needs_module: Line | None = None
    needs_program: Line | None = None
    env: dict[EnvName, Line] = Field(default_factory=dict)

    @field_validator("argv")
    @classmethod
    def _honest(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for word in value:
            if found := _SWALLOWS.search(word):
                raise ValueError(
                    f"{found.group().strip()!r} hides the exit status of what stands before it"
                )
        return value


Step = Annotated[PipStep | CopyStep | PatchStep | LinkStep | RunStep, Field(discriminator="do")]

"""A recipe: the declaration of how an engine is built, checked and served.

A recipe is a folder with a ``recipe.yaml`` and the files that its steps use. The models here are
its whole language; ``docs/reference/recipes.md`` explains it.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tuner.quantity import parse_bytes

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
_SWALLOWS = re.compile(r"\|\|\s*(?:true\b|:|exit\s+0)|;\s*true\b|(?<!\|)\|\s*tee\b|\bset \+e\b")
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Package = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]*$")]
Line = Annotated[str, Field(min_length=1, pattern=r"^[^\r\n\x00]*$")]
When = Literal["build", "verify", "both"]


class Strict(BaseModel):
    """A frozen part of a recipe; a key that it does not know is a mistake, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class VenvBase(Strict):
    """A virtual environment made from an interpreter of this machine.

    Attributes:
        pythons: Versions that the lock files are good for, best first: ``["3.11", "3.12"]``.
        disk: Disk that the finished environment and its building need together.
    """

    pythons: tuple[Annotated[str, Field(pattern=r"^3\.\d+$")], ...] = Field(min_length=1)
    disk: str

    @field_validator("disk")
    @classmethod
    def _size(cls, value: str) -> str:
        parse_bytes(value)
        return value


class ImageBase(Strict):
    """A container image that the steps are applied to.

    Attributes:
        ref: The base image: a name with a tag or a digest that the daemon has or can pull.
        python: The interpreter inside that the engine runs with.
        venv: Whether a virtual environment is made inside, from ``python``. It is built in a stage of
            its own, so the image carries no wheels and no traces of building; its steps may then write
            only below ``{root}``, ``{site}`` and ``{prefix}``.
        packages: Debian packages installed before the first step.
        build_packages: Further ones for the stage that builds the environment, as a compiler; only with
            ``venv``, since they stay behind with that stage.
        disk: Disk that building needs on top of the base image.
        network: Network of the build's own containers: ``none`` cuts it off.
    """

    ref: Line
    python: Line = "python3"
    venv: bool = False
    packages: tuple[Package, ...] = ()
    build_packages: tuple[Package, ...] = ()
    disk: str
    network: Literal["default", "host", "none"] = "default"

    @field_validator("disk")
    @classmethod
    def _size(cls, value: str) -> str:
        parse_bytes(value)
        return value


class ExistingBase(Strict):
    """Something that the user already has: nothing is built, it is fingerprinted and checked.

    Attributes:
        python: An interpreter of this machine; None for the one that tuner itself runs with.
        image: An image, or a container whose image it is, for engines that run in containers.
        image_python: The interpreter inside that image.
    """

    python: Line | None = None
    image: Line | None = None
    image_python: Line = "python3"


class Base(Strict):
    """What an engine can be built from; at least one, each for its own way to launch."""

    venv: VenvBase | None = None
    image: ImageBase | None = None
    existing: ExistingBase | None = None

    @model_validator(mode="after")
    def _some(self) -> Base:
        if self.venv is None and self.image is None and self.existing is None:
            raise ValueError("a recipe needs a base: venv, image or existing")
        if self.existing is not None and (self.venv is not None or self.image is not None):
            raise ValueError("a recipe with base existing builds nothing, so it has no other base")
        return self


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
    env: dict[EnvName, Line] = {}

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


class Container(Strict):
    """What a container of this engine needs from its host, declared here and nowhere in code.

    Attributes:
        gpus: ``all`` asks the NVIDIA runtime for every device; ``auto`` does where the host has any.
        devices: Device nodes to pass in; glob patterns are resolved when the container starts.
        mounts: Host folders to mount read-only, ``host:inside``.
        shm: Size of the container's own /dev/shm.
        env: Environment variables only containers need.
    """

    gpus: Literal["none", "all", "auto"] = "none"
    devices: tuple[Line, ...] = ()
    mounts: tuple[Annotated[str, Field(pattern=r"^/[^:]*:/[^:]*$")], ...] = ()
    shm: str = "1GiB"
    env: dict[EnvName, Line] = {}

    @field_validator("shm")
    @classmethod
    def _size(cls, value: str) -> str:
        parse_bytes(value)
        return value


class Knows(Strict):
    """The names that the engine understands, so that a typing error is found before anything starts.

    Attributes:
        flags: A file of the recipe with one server flag a line (``--name``, then its short forms);
            None where any flag is let through to the engine's own check.
        env: Environment variables that the server reads and that a search may set; a trailing ``*``
            stands for any ending.
    """

    flags: Line | None = None
    env: tuple[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*\*?$")], ...] = ()


class RecipeSpec(Strict):
    """All of a ``recipe.yaml``."""

    format: Literal[1]
    name: Name
    about: Line
    base: Base
    steps: tuple[Step, ...] = ()
    env: dict[EnvName, Line] = {}
    server: tuple[Line, ...] = Field(min_length=1)
    checks: tuple[Check, ...] = ()
    container: Container = Container()
    knows: Knows = Knows()
    extras: dict[Name, Line] = {}

    @model_validator(mode="after")
    def _consistent(self) -> RecipeSpec:
        for kind, names in (
            ("step", [step.name for step in self.steps]),
            ("check", [check.name for check in self.checks]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{kind} {twice[0]!r} is declared twice")
        if self.base.existing is not None and self.steps:
            raise ValueError("a recipe with base existing builds nothing, so it has no steps")
        if self.base.image is not None and self.base.image.venv:
            self._stays_inside()
        elif self.base.image is not None and self.base.image.build_packages:
            raise ValueError("base.image.build_packages needs base.image.venv: true")
        return self

    def _stays_inside(self) -> None:
        """Only the environment's own folder leaves the stage that it is built in."""
        for step in self.steps:
            places: tuple[str, ...] = ()
            if isinstance(step, CopyStep):
                places = (step.to,)
            elif isinstance(step, PatchStep):
                places = step.targets
            elif isinstance(step, LinkStep):
                places = (step.link,)
            for place in places:
                if not place.startswith(("{root}", "{site}", "{prefix}")):
                    raise ValueError(
                        f"step {step.name!r} writes to {place}: with image.venv only {{root}}, {{site}} "
                        "and {prefix} are kept"
                    )

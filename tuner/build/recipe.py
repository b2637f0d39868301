"""A recipe: the declaration of how an engine is built, checked and served.

A recipe is a folder with a ``recipe.yaml`` and the files that its steps use. The models here, with
those of its steps and checks, are its whole language; ``docs/reference/recipes.md`` explains it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from tuner.build.checks import Check
from tuner.build.steps import CopyStep, LinkStep, PatchStep, Step
from tuner.build.terms import EnvName, Line, Name, Package, Strict
from tuner.quantity import parse_bytes


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


class Container(Strict):
    """What a container of this engine needs from its host, declared here and nowhere in code.

    Attributes:
        gpus: ``all`` asks the NVIDIA runtime for every device; ``auto`` does where the host has any.
        devices: Device nodes to pass in; glob patterns are resolved when the container starts.
        mounts: Host folders to mount read-only, ``host:inside``.
        shm: Size of the container's own /dev/shm.
        env: Environment variables only containers need.
        user: Whom the engine runs as inside: ``own``, the user who runs tuner, or ``image``, whoever
            the image says.
        capabilities: Rights of root that the engine keeps, as ``SYS_NICE``; it has no others.
        resource: The name by which a Kubernetes device plugin offers the devices.
    """

    gpus: Literal["none", "all", "auto"] = "none"
    devices: tuple[Line, ...] = ()
    mounts: tuple[Annotated[str, Field(pattern=r"^/[^:]*:/[^:]*$")], ...] = ()
    shm: str = "1GiB"
    env: dict[EnvName, Line] = Field(default_factory=dict)
    user: Literal["own", "image"] = "own"
    capabilities: tuple[Annotated[str, Field(pattern=r"^[A-Z][A-Z_]*$")], ...] = ()
    resource: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")] | None = None

    @field_validator("shm")
    @classmethod
    def _size(cls, value: str) -> str:
        parse_bytes(value)
        return value


class KvCache(Strict):
    """How the engine allots its KV cache, where its version does not tell.

    Attributes:
        generation: ``v0`` allots states up front and lays all layers into each block; ``v1`` draws
            pages of all layers from one pool. None takes what vLLM of that version does.
        layers: ``all`` where the engine keeps keys and values for every layer, also for those that
            do not attend, as a v0 fork that knows no hybrid models; ``attending`` for those only.
    """

    generation: Literal["v0", "v1"] | None = None
    layers: Literal["attending", "all"] = "attending"


class Knows(Strict):
    """The names that the engine understands, so that a typing error is found before anything starts.

    Attributes:
        flags: A file of the recipe with one server flag a line (``--name``, then its short forms);
            None where any flag is let through to the engine's own check.
        variables: A file of the recipe with one variable a line that the server reads.
        env: Further variables that the server reads and that a search may set; a trailing ``*``
            stands for any ending.
    """

    flags: Line | None = None
    variables: Line | None = None
    env: tuple[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*\*?$")], ...] = ()


class RecipeSpec(Strict):
    """All of a ``recipe.yaml``."""

    format: Literal[1]
    name: Name
    about: Line
    base: Base
    steps: tuple[Step, ...] = ()
    env: dict[EnvName, Line] = Field(default_factory=dict)
    server: tuple[Line, ...] = Field(min_length=1)
    checks: tuple[Check, ...] = ()
    container: Container = Container()
    kv_cache: KvCache = KvCache()
    knows: Knows = Knows()
    extras: dict[Name, Line] = Field(default_factory=dict)

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

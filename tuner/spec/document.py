"""The search space as a file declares it, from the top."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from tuner.spec.base import Duration, EnvName, Line, Seconds, Slug, Strict, Text, written_as
from tuner.spec.flags import FlagName
from tuner.spec.levels import Climbing, Level
from tuner.spec.limits import Budget, HardwareOverride, Memory
from tuner.spec.parameter import Computed, Group, Name, Parameter, Rule
from tuner.spec.quality import Quality
from tuner.spec.score import Score
from tuner.spec.values import ChoiceValue, EnvValue, FlagValue
from tuner.spec.workload import Workload

Seed = Annotated[int, Field(ge=0, lt=2**32)]
ServedName = Annotated[
    str, *written_as(r"[A-Za-z0-9][\w./-]{0,127}", "letters, digits, dots, dashes and slashes")
]
Pattern = Annotated[
    str, *written_as(r"[\w*?\[\]]{1,128}", "a variable's name, with * for any letters")
]


class MadeModel(Strict):
    """A tiny model that is made on the spot."""

    make: Slug
    """The maker's name, such as tiny-hybrid."""
    seed: Seed = 0
    """Seed of its weights: the same seed makes the same model."""


class StoredModel(Strict):
    """A model that lies on disk."""

    path: Line
    """Its folder; a relative path is relative to the search space."""


def _model_form(value: Any) -> str | None:
    if isinstance(value, MadeModel) or (isinstance(value, dict) and "make" in value):
        return "made"
    return "stored" if isinstance(value, StoredModel | dict) else None


Model = Annotated[
    Annotated[MadeModel, Tag("made")] | Annotated[StoredModel, Tag("stored")],
    Discriminator(
        _model_form,
        custom_error_type="model",
        custom_error_message="is no model: write {path: FOLDER}, or {make: tiny-hybrid}",
    ),
]


class Deadlines(Strict):
    """How long an engine may take, by stage."""

    start: Duration = 900.0
    """From its start until the first answer; more by what it loads, and while its log moves on."""
    silence: Duration = 300.0
    """Without a new log line and without work done, while it starts."""
    tokens: Duration = 120.0
    """Without a token while requests run and the engine does no step; half a request's time at most."""
    stop: Seconds = 60.0
    """From the request to stop until nothing is left."""


class Engine(Strict):
    """What is started, as far as it is not searched."""

    recipe: Line
    """The recipe that the engine is built by: a name, or the path of a recipe's folder."""
    model: Model
    """The model that is served."""
    served_name: ServedName = "llm"
    """The model's name in requests."""
    launch: Literal["process", "docker"] = "process"
    """How the engine is started."""
    port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """TCP port on 127.0.0.1 that it serves on; left out, a free one is chosen for each start."""
    flags: dict[FlagName, FlagValue] = Field(default_factory=dict)
    """Flags of the server that stay as they are; true is the bare flag."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Environment variables of the server that stay as they are."""
    allow_code: bool = False
    """Whether flags and variables may be set that make the server load code or open files."""
    deadlines: Deadlines = Deadlines()
    """How long the stages of a start and a stop may take."""


FIRST_LOOK = 2
"""Rounds after which the finalists are looked at for the first time, where there are so many."""


class Finalists(Strict):
    """The measurement of the best against the baseline, after the search."""

    count: Annotated[int, Field(ge=0, le=20)] = 2
    """How many of the best trials are measured again; 0 leaves it out."""
    rounds: Annotated[int, Field(ge=1, le=50)] = 6
    """Most rounds for each: baseline, finalist, finalist, baseline; each on an engine of its own. From
    the second on a finalist whose answer is clear, or would hardly change any more, has no further one."""

    @property
    def least_starts(self) -> int:
        """Starts until the finalists are looked at for the first time, if all places are filled."""
        return 2 * min(FIRST_LOOK, self.rounds) * (self.count + 1) if self.count else 0


class Repeats(Strict):
    """What is measured again before the finalists are chosen, each time on an engine of its own."""

    baseline: Annotated[int, Field(ge=1, le=20)] = 2
    """Starts of the baseline before the search: what they differ by is the study's own noise."""
    each: Annotated[int, Field(ge=1, le=20)] = 3
    """Most runs that a trial gets while it may still become a finalist; 1 leaves this out."""
    starts: Annotated[int, Field(ge=0, le=10_000)] = 12
    """Most starts that go into trials in this way; 0 leaves it out. The baseline runs once more before them."""
    worthwhile: Annotated[float, Field(ge=0, le=1)] = 0.02
    """The smallest gain over the baseline that matters; a trial that is surely below is out."""


class Search(Strict):
    """How points are chosen."""

    sampler: Literal["tpe", "grid", "random"] = "tpe"
    """tpe learns from what it measured, grid takes every point, random takes any."""
    startup: Annotated[int, Field(ge=0, le=10_000)] = 10
    """tpe: trials that are drawn at random before it begins to learn."""
    stop_early: bool = True
    """Whether a trial ends as soon as its conversations show that it is clearly worse than the best."""
    repeats: Repeats = Repeats()
    """What is measured again before the finalists are chosen."""
    finalists: Finalists = Finalists()
    """The measurement of the best against the baseline."""
    climb: Climbing = Climbing()
    """How candidates climb from level to level, where there are levels."""
    proxy: Literal["off", "shadow", "on"] = "shadow"
    """What the step simulator may do: nothing, stand beside results, or order the search once it has earned that."""

    @model_validator(mode="after")
    def _used(self) -> Search:
        if self.sampler != "tpe" and "startup" in self.model_fields_set:
            raise ValueError(f"startup does nothing with sampler: {self.sampler}: leave it out")
        return self


class Export(Strict):
    """The files that the winner becomes."""

    dir: Line = "deploy/{study}"
    """The folder that the files go to; {study} stands for the study's name."""
    concurrency: Annotated[int, Field(ge=1)] = 1
    """The file's key concurrency: requests that the platform sends at once."""
    python: Line | None = None
    """The interpreter where it is deployed; left out, the engine's own."""
    model_path: Line | None = None
    """Where the model lies where it is deployed; left out, where it lies here."""
    env: dict[EnvName, Text | int] = Field(default_factory=dict)
    """Variables that the deployment needs in addition."""
    drop_env: tuple[Pattern, ...] = ()
    """Variables of trials that are left out, as patterns such as HF_*."""


class SpaceDocument(Strict):
    """A search space: what may be varied, what is fixed, what is asked, and what may be spent."""

    version: Literal[1]
    """The version of this form; 1."""
    study: Slug
    """The study's name: small letters, digits, dashes."""
    seed: Seed = 0
    """Seed of the search."""
    engine: Engine
    """What is started."""
    parameters: Annotated[dict[Name, Parameter], Field(min_length=1)]
    """What is searched, by name."""
    groups: dict[Name, Group] = Field(default_factory=dict)
    """Parameters that move together, by the group's name."""
    computed: dict[Name, Computed] = Field(default_factory=dict)
    """Values that follow from others, by name."""
    rules: tuple[Rule, ...] = ()
    """Combinations that are not to be tried."""
    first: tuple[dict[Name, ChoiceValue], ...] = ()
    """Points to try right after the baseline; what a point leaves out is as in the baseline."""
    search: Search = Search()
    """How points are chosen, and which are measured again."""
    budget: Budget
    """When the search ends."""
    workload: Workload | None = None
    """What is asked of the engine."""
    workloads: Annotated[dict[Name, Workload], Field(min_length=1)] | None = None
    """Several workloads for each trial, by name."""
    levels: tuple[Level, ...] = ()
    """Cheaper levels of the same question, the cheapest first; the workloads themselves are the last."""
    quality: Quality = Quality()
    """What the engine must be able to do before it is measured."""
    score: Score = Score()
    """How the load's records become one number, and what must hold."""
    memory: Memory = Memory()
    """Memory limits."""
    hardware: HardwareOverride = HardwareOverride()
    """What is assumed in place of what is found on the machine."""
    decode_profile: bool = False
    """Whether the winner runs once more after the search, with the stages of its engine's steps timed."""
    export: Export = Export()
    """The files that the winner becomes, and where they go."""

    @model_validator(mode="after")
    def _one_load(self) -> SpaceDocument:
        if self.workload is None and self.workloads is None:
            raise ValueError("a search space needs either workload or workloads")
        return self

    @property
    def loads(self) -> dict[str, Workload]:
        """The workloads by name; a single one is called ``main``."""
        return {"main": self.workload} if self.workload is not None else dict(self.workloads or {})

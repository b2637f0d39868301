"""What the API takes and gives. The OpenAPI description is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints

from tuner.verdict.families import Family

STUDY = r"^[a-z0-9][a-z0-9._-]{0,62}$"
_EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
_Path = Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x1f]*$", max_length=4096)]
_Device = Annotated[str, StringConstraints(pattern=r"^[\w#:.-]{1,100}$")]


class Given(BaseModel):
    """What a client sends; a field that is not known is a mistake, never ignored."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class Problem(BaseModel):
    """Why a request was refused, in the form of RFC 9457."""

    type: str = Field("about:blank", description="Always about:blank: the status says the kind.")
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(description="What is wrong and how to mend it, in one sentence.")
    errors: list[str] = Field(default=[], description="Further lines, where one is not enough.")


class Budget(Given):
    """Limits of a search; what is left out stays as it is."""

    trials: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Most trials, the baseline included."
    )
    wall: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        None, description="Most seconds of work."
    )
    engine: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        None, description="Most seconds with an engine up or starting."
    )

    def given(self) -> dict[str, float]:
        """Those that were given."""
        return self.model_dump(exclude_none=True)


class Staying(Given):
    """That the daemon is wanted for longer than there is work."""

    tcp: Annotated[int, Field(ge=0, le=65535)] | None = Field(
        None, description="A port of 127.0.0.1 to listen on too, 0 for any; null for none."
    )


class Submission(Given):
    """A search space to be worked on."""

    space: Annotated[str, StringConstraints(max_length=262_144)] = Field(
        description="The search space's text."
    )
    origin: _Path | None = Field(
        None,
        description="The file it is from; paths in it are relative to its folder. Without one it is "
        "the copy in the study's own folder.",
    )
    stood: _Path | None = Field(
        None,
        description="The folder that a relative export folder is relative to; the state folder "
        "without one.",
    )
    migrate: bool = Field(
        default=False,
        description="Whether a study of that name that asks something else goes on with this space.",
    )
    budget: Budget = Budget()
    priority: Annotated[int, Field(ge=-100, le=100)] | None = Field(
        None, description="Higher goes first; 0 where nothing is said."
    )
    devices: Annotated[list[_Device], Field(min_length=1, max_length=1024)] | None = Field(
        None, description="The only devices that it may use: indices or UUIDs."
    )
    secrets: dict[_EnvName, SecretStr] = Field(
        default={},
        description="Values of the variables that the space takes from the environment. They are kept "
        "in memory alone.",
    )


class Going(Given):
    """How a study is to go on."""

    budget: Budget = Budget()
    secrets: dict[_EnvName, SecretStr] = Field(default={}, description="As when it was submitted.")


class Change(Given):
    """What is to change about a study."""

    priority: Annotated[int, Field(ge=-100, le=100)] | None = Field(
        None, description="Higher goes first."
    )
    before: Annotated[str, StringConstraints(pattern=STUDY)] | None = Field(
        None, description="The study that it is to go right before."
    )
    budget: Budget = Budget()


class Best(BaseModel):
    """The best feasible trial of a search."""

    trial: int
    score: float


class StudySummary(BaseModel):
    """A study in a few words."""

    study: str
    status: Literal["queued", "running", "paused", "finished", "stopped", "failed"]
    reason: str | None = Field(description="Why it is in this status, where there is more to say.")
    wanted: Literal["run", "pause", "stop"] | None = Field(
        description="What is wished of it; null for one that was never given to a daemon."
    )
    waiting: str | None = Field(description="What it waits for, while it is queued.")
    priority: int
    place: int | None = Field(description="Its place in the queue, from 1, while it is in it.")
    devices: list[str] = Field(description="The devices that it is lent now.")
    fingerprint: str
    created: float = Field(description="Seconds since 1970.")
    ended: float | None
    trials: int
    best: Best | None


class CurrentTrial(BaseModel):
    """The trial in hand."""

    trial: int
    origin: str
    params: dict[str, Any]
    attempt: int
    stage: str
    entered: dict[str, float] = Field(
        description="When each stage of this attempt was entered, seconds since 1970."
    )


class Spent(BaseModel):
    """What a study has spent."""

    trials: int
    engine: float = Field(description="Seconds with an engine up or starting.")
    typical: float = Field(description="Seconds that a trial takes: the median.")


class StudyDetail(StudySummary):
    """A study with all that a page about it begins with."""

    origin: str
    limits: dict[str, float] = Field(description="What it may spend: trials, wall, engine.")
    repeats: int = Field(
        description="Starts that follow the search until the finalists are looked at for the first time."
    )
    spent: Spent
    verdicts: dict[str, int] = Field(description="How many trials ended with which verdict.")
    baseline: dict[str, Any] | None = Field(description="The baseline's point.")
    margins: dict[str, float | None] = Field(
        description="How far the best trial stays from each gate, as a share of the gate."
    )
    finals: int | None = Field(
        description="Starts that are left of the finalists' repeats, about; null before them."
    )
    scores: list[float] = Field(description="The last 200 scores of feasible trials, in order.")
    current: CurrentTrial | None
    levels: list[dict[str, Any]] = Field(
        description="How far each cheaper level agrees with the real one, as far as it was said."
    )
    objective: str = Field(description="What the score is, in words.")
    front: dict[str, Any] | None = Field(
        description="With two objectives: the trials that no other one beats in both, by what the "
        "search measured, and the one that the declared rule takes of them; else null."
    )
    decision: dict[str, Any] | None
    delivered: dict[str, str | None] | None = Field(
        description="Where the worker wrote the report and the export."
    )
    exit: int | None = Field(description="What a command that waited for it ends with.")
    last_event: int = Field(description="Events with a higher id are news after this answer.")


class TrialBrief(BaseModel):
    """A trial in a few words."""

    trial: int
    origin: str
    repeats: int | None
    block: int | None
    stage: str
    attempt: int
    verdict: str | None
    params: dict[str, Any]
    score: float | None
    feasible: bool | None
    created: float
    ended: float | None
    seconds: float = Field(description="With its engine up or starting, over all its attempts.")
    missed: list[str] = Field(description="The figures whose gates it did not pass.")
    history: str | None = Field(description="Why it does not count any more.")
    level: str | None = Field(description="The cheaper level that it was held on.")
    output_tps: float | None = Field(
        default=None,
        description="Output tokens a second, weighted over its workloads as the score is; in lists only "
        "where figures are asked for.",
    )
    ttft_p90_s: float | None = Field(
        default=None, description="The longest TTFT P90 of its workloads, in the same way."
    )
    family: Family = Field(description="What kind of end it came to, for a glance.")


class TrialDetail(TrialBrief):
    """All that is known of a trial."""

    deployment: dict[str, Any]
    judgement: dict[str, Any] | None
    constraints: dict[str, float] | None
    metrics: dict[str, Any] | None
    stages: dict[str, float] = Field(description="Seconds on the way to each stage, last attempt.")
    command: list[str] | None = Field(description="The whole command of the server.")
    env: dict[str, str] = Field(description="The variables that its deployment sets.")
    proxy: list[str] = Field(
        description="What the gate of a proxy did with it: put first, drawn for an audit, put off."
    )


class Importance(BaseModel):
    """Which parameters tell the best trials from the others."""

    trials: int = Field(description="Told trials that it was computed from.")
    shares: dict[str, float] = Field(
        description="Shares by parameter or group, the largest first, adding up to 1; nothing where "
        "too few trials were told."
    )


class Space(BaseModel):
    """A search space to begin with."""

    name: str
    text: str


class Artifact(BaseModel):
    """A file of a study."""

    path: str = Field(description="Relative to the study's folder.")
    bytes: int
    modified: float


class Exported(BaseModel):
    """The files of a deployment."""

    study: str
    trial: int
    files: dict[str, str] = Field(description="Their text, by name.")
    doubt: str | None = Field(description="Why the trial is not one to deploy, where it is not.")


class Told(BaseModel):
    """The API has done what was asked, or will."""

    said: str = Field(description="What happens now, in one sentence.")


class Device(BaseModel):
    """A device now."""

    key: str
    index: int
    name: str
    uuid: str | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    utilization: float | None = None
    power: float | None = None
    temperature: float | None = None
    error: str | None = None
    study: str | None = Field(None, description="The study that it is lent to.")
    quarantine: str | None = Field(None, description="Why nothing is started on it.")


class Machine(BaseModel):
    """The machine now."""

    at: float
    host: dict[str, float | None]
    devices: list[Device]
    study: str | None = Field(None, description="The study that the host is lent to.")
    quarantine: str | None = Field(None, description="Why nothing is started on the host.")
    problem: str | None = Field(description="Why the devices cannot be read, where they cannot.")


class Health(BaseModel):
    """How the daemon is doing."""

    ok: bool
    version: str
    pid: int
    started: float
    state: str = Field(description="The state folder.")
    recovering: bool = Field(description="Whether it still ends what an earlier daemon left.")
    stopping: bool
    running: list[str] = Field(description="Studies that are worked on.")
    queued: list[str] = Field(description="Studies that wait, in order.")
    page: str | None = Field(description="Where the web page is, while it is open.")
    size: int = Field(description="Bytes of the state folder, as last counted.")
    size_limit: int
    problems: list[str] = Field(description="What is wrong, with the mend.")

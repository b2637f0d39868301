"""A recorded surface: every point of a grid, measured on a real engine, to replay searches on.

A surface is a file of JSON lines. The first line says what was measured and on what; each other
line is a point: its parameters, how long its engine took to start, and what became of it on each
level, once or more often. A point that does not start has no values and says why.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.errors import UserError
from tuner.fidelity.assess import noise
from tuner.fidelity.rule import read_bytes
from tuner.fidelity.table import canonical
from tuner.spec.levels import REAL
from tuner.store.rows import Origin, StudyRow, Transition, TrialRow
from tuner.store.stages import Stage, is_running

Scalar = str | int | float | bool
_FROZEN = ConfigDict(extra="forbid", frozen=True)
_MEASURED = "measured"
_Model = TypeVar("_Model", bound=BaseModel)


class Head(BaseModel):
    """What a surface is.

    Attributes:
        surface: Its name.
        what: What was measured, on which engine and machine, in a sentence or two.
        real: The level whose answer counts.
        recorded: False for a surface that was not measured as a whole; ``what`` says how it was made.
        baseline: The point that a study begins with.
    """

    model_config = _FROZEN

    surface: str
    what: str
    real: str = "full"
    recorded: bool = True
    baseline: Mapping[str, Scalar]


class Run(BaseModel):
    """One measurement of a point on a level: its value, and the seconds that its load took."""

    model_config = _FROZEN

    value: float = Field(gt=0, allow_inf_nan=False)
    seconds: float = Field(gt=0, allow_inf_nan=False)


class Point(BaseModel):
    """A point of a surface.

    Attributes:
        params: Its parameters.
        start_s: Seconds of each start of its engine, up to the failure where it failed.
        levels: Its measurements, by level.
        lost_s: Seconds that its engine was up before a failure that came after the start.
        verdict: ``measured``, or why it has no value: ``memory``, ``rejected_flags``, ``gates`` …
        foreseen: Whether the tuner knows before any start that it cannot run.
        layout: What changes how its engine runs a step at all, as a proxy sees it.
        predicted: What a proxy says of it, in any unit; None where it abstains.
    """

    model_config = _FROZEN

    params: Mapping[str, Scalar]
    start_s: tuple[float, ...] = Field(min_length=1)
    levels: Mapping[str, tuple[Run, ...]] = Field(default_factory=dict)
    lost_s: float = Field(default=0.0, ge=0)
    verdict: str = _MEASURED
    foreseen: bool = False
    layout: str = ""
    predicted: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @property
    def key(self) -> str:
        """The point's name: the same for equal parameters, whatever their order."""
        return key_of(self.params)

    def value(self, level: str) -> float | None:
        """The geometric mean of its values on a level; None where it has none."""
        runs = self.levels.get(level, ())
        if not runs:
            return None
        return math.exp(sum(math.log(run.value) for run in runs) / len(runs))

    def seconds(self, level: str) -> float:
        """Mean seconds of its load on a level."""
        runs = self.levels[level]
        return sum(run.seconds for run in runs) / len(runs)

    @property
    def start(self) -> float:
        """Mean seconds of a start."""
        return sum(self.start_s) / len(self.start_s)


class Surface:
    """A surface.

    Args:
        head: What it is.
        points: Its points, each once.

    Raises:
        ValueError: When a point is there twice, no point has a value, or the baseline is missing.
    """

    def __init__(self, head: Head, points: Sequence[Point]) -> None:
        self.head = head
        self.points = {point.key: point for point in points}
        if len(self.points) != len(points):
            raise ValueError("a point is there twice")
        if key_of(head.baseline) not in self.points:
            raise ValueError("the baseline is none of the points")
        self.truth = {
            key: value
            for key, point in self.points.items()
            if (value := point.value(head.real)) is not None
        }
        if not self.truth:
            raise ValueError(f"no point has a value on level {head.real!r}")

    @property
    def best(self) -> float:
        """The best real value."""
        return max(self.truth.values())

    def sigma(self, level: str) -> float | None:
        """Relative deviation of one measurement on a level; None where nothing was repeated."""
        return noise(
            {k: [r.value for r in p.levels.get(level, ())] or [1.0] for k, p in self.points.items()}
        )

    def choices(self) -> dict[str, tuple[Scalar, ...]]:
        """Every value of every parameter, numbers in order and words in order of appearance."""
        found: dict[str, dict[Scalar, None]] = {}
        for point in self.points.values():
            for name, value in point.params.items():
                found.setdefault(name, {}).setdefault(value)
        return {name: _ordered(tuple(values)) for name, values in found.items()}


def key_of(params: Mapping[str, Any]) -> str:
    """The name of a point."""
    return " ".join(f"{name}={canonical(params[name])}" for name in sorted(params))


def _ordered(values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return tuple(sorted(numbers)) if len(numbers) == len(values) else values


def read_surface(path: Path) -> Surface:
    """Read a surface.

    Raises:
        UserError: When the file cannot be read or is no surface.
    """
    lines = [
        (number, line)
        for number, line in enumerate(read_bytes(path, "a surface (.jsonl)").splitlines(), 1)
        if line.strip()
    ]
    if not lines:
        raise UserError("the surface is empty", file=path)
    head = _parsed(Head, *lines[0], path)
    points = [_parsed(Point, number, line, path) for number, line in lines[1:]]
    try:
        return Surface(head, points)
    except ValueError as error:
        raise UserError(str(error), file=path) from error


def _parsed(model: type[_Model], number: int, line: bytes, path: Path) -> _Model:
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(map(str, detail["loc"])) or "line"
        raise UserError(f"{where}: {detail['msg']}", file=path, line=number) from error


def write_surface(surface: Surface) -> str:
    """A surface as :func:`read_surface` reads it; the same text for the same surface."""
    lines = [surface.head.model_dump_json()]
    lines += [p.model_dump_json(exclude_defaults=True) for p in surface.points.values()]
    return "\n".join(lines) + "\n"


class Steps(Protocol):
    """Where the seconds of a trial's stages come from."""

    def __call__(self, trial: TrialRow) -> Mapping[Stage, float]:
        """Seconds that a trial spent on the way from each stage to the next."""


def surface_of_study(
    row: StudyRow, trials: Sequence[TrialRow], transitions: Iterable[Transition]
) -> Surface:
    """A surface from a study: all that it measured, on every level.

    Args:
        row: The study.
        trials: Its trials, read whole; one that was never told is left out.
        transitions: Their changes of stage.

    Raises:
        UserError: When the study has no baseline yet, or none of its trials has a value.
    """
    first = next((trial for trial in trials if trial.origin is Origin.BASELINE), None)
    if first is None:
        raise UserError(f"study {row.name!r} has measured nothing yet")
    head = Head(surface=row.name, what=_what(row), real=REAL, baseline=first.params)
    try:
        return surface_of_trials(head, trials, stage_seconds(transitions), REAL)
    except ValueError as error:
        raise UserError(f"study {row.name!r} is no surface: {error}") from error


def _what(row: StudyRow) -> str:
    """Which engines on which machine, and when, in one sentence."""
    said = []
    for name, engine in row.facts.get("engines", {}).items():
        seen = engine["fingerprint"]
        parts = [f"{p} {seen[p]}" for p in ("vllm", "torch") if seen[p]]
        parts += [part for part in (seen["image"], seen["cpu"]) if part]
        said.append(f"engine {name} ({', '.join(parts)})")
    day = dt.datetime.fromtimestamp(row.created, tz=dt.UTC).date().isoformat()
    return f"study {row.name} of {day}: {'; '.join(said) or 'an engine that is not known'}"


def surface_of_trials(
    head: Head, trials: Iterable[TrialRow], seconds: Steps, level: str = "full"
) -> Surface:
    """A surface from a study that measured a grid; repeats on purpose are further runs of a point.

    Args:
        head: What it is.
        trials: The study's trials; those that were never told are left out.
        seconds: The seconds of a trial's stages.
        level: The level that their scores were measured on.
    """
    found: dict[str, Point] = {}
    for trial in trials:
        if trial.verdict is None and trial.score is None:
            continue
        point = _point(trial, seconds(trial), level)
        old = found.get(point.key)
        found[point.key] = point if old is None else _joined(old, point)
    return Surface(head, list(found.values()))


def _point(trial: TrialRow, seconds: Mapping[Stage, float], level: str) -> Point:
    up = sum(s for stage, s in seconds.items() if is_running(stage) and stage is not Stage.STARTING)
    good = bool(trial.feasible) and trial.score is not None and trial.score > 0
    verdict = trial.verdict or "gates"
    cheaper = {
        name: (Run(value=one["score"], seconds=one["seconds"]),)
        for name, one in trial.levels.items()
        if one.get("score") and one.get("seconds")
    }
    rest = up - sum(runs[0].seconds for runs in cheaper.values())
    real = {level: (Run(value=trial.score or 0.0, seconds=rest),)} if good and rest > 0 else {}
    return Point(
        params=trial.params,
        start_s=(seconds.get(Stage.STARTING, 0.0),),
        levels={**cheaper, **real},
        lost_s=0.0 if good else up,
        verdict=_MEASURED if good else ("gates" if trial.score is not None else verdict),
        foreseen=not trial.launched,
    )


def _joined(old: Point, new: Point) -> Point:
    """One point from two trials of it; a value outlives a failure."""
    names = dict.fromkeys([*old.levels, *new.levels])
    good = _MEASURED in (old.verdict, new.verdict)
    return old.model_copy(
        update={
            "start_s": (*old.start_s, *new.start_s),
            "levels": {n: (*old.levels.get(n, ()), *new.levels.get(n, ())) for n in names},
            "verdict": _MEASURED if good else old.verdict,
            "foreseen": old.foreseen and new.foreseen,
        }
    )


def stage_seconds(transitions: Iterable[Transition]) -> Steps:
    """The seconds of each trial's stages in its last attempt, from the ledger's transitions."""
    by_trial: dict[int, list[Transition]] = {}
    for step in transitions:
        by_trial.setdefault(step.number, []).append(step)

    def seconds(trial: TrialRow) -> Mapping[Stage, float]:
        steps = [s for s in by_trial.get(trial.number, []) if s.attempt == trial.attempt]
        return {
            before.stage: max(0.0, after.clock - before.clock)
            for before, after in itertools.pairwise(steps)
            if before.boot == after.boot
        }

    return seconds

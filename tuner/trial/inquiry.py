"""What an engine's own parser and checks say of many points of a search space, before any is started."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tuner.build import Engine, build_engine
from tuner.launch.preflight import Answer, Question
from tuner.spec import Context, Point, SearchSpace, baseline, first_points, resolve
from tuner.spec.deployment import Deployment
from tuner.spec.specimens import specimens
from tuner.spec.values import key
from tuner.trial.admission import check_models
from tuner.trial.origin import own_package, words
from tuner.trial.session import served_model
from tuner.trial.starting import asker, bare, engine_environment, model_path


@dataclass(frozen=True, slots=True)
class Refusal:
    """Points that an engine refuses in the same words, numbers apart.

    Attributes:
        words: What it said of the first of them.
        count: How many they are.
        example: The first of them, where it differs from the baseline.
    """

    words: str
    count: int
    example: Point


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What came of asking.

    Attributes:
        asked: How many points the engines were asked about.
        accepted: How many of them they would take.
        refusals: Why they would not take others, the most frequent reason first.
        unanswered: How many got no answer; such points are started to find out.
        problem: Why they got none, as far as it is known.
        seconds: What the asking took, the starts of the engines' own processes included.
        packages: The file that each engine's vLLM is imported from, by the engine's name.
    """

    asked: int
    accepted: int
    refusals: tuple[Refusal, ...]
    unanswered: int
    problem: str
    seconds: float
    packages: dict[str, str] = field(default_factory=dict)


def inquire(space: SearchSpace, context: Context, *, count: int) -> Inquiry:
    """Ask the space's engines about the baseline, the first points, and a number of other points.

    Engines that are not there yet are built. No memory is allocated and no model is loaded, so of
    memory nothing is said.

    Args:
        space: The search space.
        context: The machine and the workloads.
        count: How many other points; there may be fewer.

    Raises:
        UserError: When an engine or a model is not to be had.
    """
    check_models(space)
    launch = space.engine.launch
    engines = {
        choice.name: build_engine(choice.recipe, launch=launch, image=choice.image)
        for choice in space.engines
    }
    any_engine = next(iter(engines.values()))
    models = {model.name: served_model(space, model, any_engine) for model in space.models}
    start = baseline(space, context)
    points = [start, *first_points(space, context), *specimens(space, context, count)]
    asked: dict[tuple[str, str], list[tuple[Point, Deployment]]] = {}
    for point in points:
        deployment = resolve(space, point, context)
        asked.setdefault((deployment.engine, deployment.model), []).append((point, deployment))
    files = [str(file.path) for file in space.files.values()]
    began = time.monotonic()
    heard: list[tuple[Point, Answer]] = []
    packages: dict[str, str] = {}
    for (engine, model), these in asked.items():
        answers, package = ask(
            engines[engine], models[model], [one for _, one in these], files=files
        )
        if package is not None:
            packages[engine] = package
        heard += [(point, answer) for (point, _), answer in zip(these, answers, strict=True)]
    return replace(told(heard, start, seconds=time.monotonic() - began), packages=packages)


def ask(
    engine: Engine, model: Path, deployments: list[Deployment], *, files: Iterable[str] = ()
) -> tuple[list[Answer], str | None]:
    """What one engine says of deployments of one model, by a process of its own that is ended after.

    Returns:
        An answer to each, and the file that its package is imported from.

    Args:
        engine: The engine.
        model: The model's folder on this machine.
        deployments: At least one.
        files: Files that flags and variables may name.

    Raises:
        UserError: When its package is not of its environment.
    """
    env = engine_environment(engine, bare(deployments[0]))
    inside = model_path(engine, model)
    questions = [Question(["--model", inside, *one.argv], dict(one.env)) for one in deployments]
    with (
        TemporaryDirectory() as log,
        asker(engine, model, env=env, log=Path(log), files=files) as process,
    ):
        return process.ask_all(questions), own_package(deployments[0].engine, process)


def told(heard: Sequence[tuple[Point, Answer]], start: Point, *, seconds: float) -> Inquiry:
    """The answers, counted.

    Args:
        heard: Points with what was said of them.
        start: The baseline.
        seconds: What the asking took.
    """
    refused: dict[str, list[tuple[Point, str]]] = {}
    for point, answer in heard:
        if answer.accepted is False:
            gist = _gist(answer.error)
            refused.setdefault(re.sub(r"\d+", "0", gist), []).append((point, gist))
    silent = [answer.error for _, answer in heard if answer.accepted is None]
    refusals = [
        Refusal(gist, len(same), _changes(point, start))
        for same in refused.values()
        for point, gist in same[:1]
    ]
    return Inquiry(
        asked=len(heard),
        accepted=sum(answer.accepted is True for _, answer in heard),
        refusals=tuple(sorted(refusals, key=lambda one: -one.count)),
        unanswered=len(silent),
        problem=silent[0] if silent else "",
        seconds=seconds,
    )


def as_lines(found: Inquiry) -> list[str]:
    """What came of asking, for people."""
    refused = found.asked - found.accepted - found.unanswered
    points = f"{found.asked} point{'' if found.asked == 1 else 's'}"
    took = f"{found.seconds:.1f} s"
    lines = [
        f"asked the engine about {points} ({took}): it takes {found.accepted} and refuses {refused}"
    ]
    for one in found.refusals:
        said = ", ".join(f"{name} {key(value)}" for name, value in one.example.items())
        lines += [f"  {one.count} x {one.words}", f"      such as: {said or 'the baseline'}"]
    if found.unanswered:
        lines.append(f"  {found.unanswered} without an answer: {found.problem}")
    return [*lines, *(words(name, path) for name, path in found.packages.items())]


def as_json(found: Inquiry) -> dict[str, Any]:
    """What came of asking, JSON-ready."""
    refusals = [
        {"words": one.words, "count": one.count, "example": dict(one.example)}
        for one in found.refusals
    ]
    return {
        "asked": found.asked,
        "accepted": found.accepted,
        "refused": refusals,
        "unanswered": found.unanswered,
        "problem": found.problem or None,
        "seconds": found.seconds,
        "packages": found.packages,
    }


def _gist(error: str) -> str:
    """The line of an error that says what is wrong; pydantic puts it under a heading."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("Value error")]
    return (telling or lines or ["no reason given"])[0]


def _changes(point: Point, start: Point) -> Point:
    return {name: value for name, value in point.items() if start.get(name, ...) != value}

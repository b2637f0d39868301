"""What a study would start: the exact commands of the baseline and of other points, before anything is built."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tuner.build import Foreseen, foresee, load_recipe, model_folder
from tuner.launch.containerspec import PORT as PORT_INSIDE
from tuner.launch.ports import HOST
from tuner.spec import (
    Context,
    Point,
    SearchSpace,
    axes,
    baseline,
    check,
    describe,
    first_points,
    grid_size,
    notes,
    resolve,
)
from tuner.spec.deployment import Deployment
from tuner.spec.settings import ModelChoice
from tuner.spec.specimens import specimens
from tuner.spec.values import key, text_of
from tuner.trial.command import server_command, shell_line
from tuner.trial.environment import environment
from tuner.trial.starting import MODEL_INSIDE


@dataclass(frozen=True, slots=True)
class Preview:
    """One start that a study may make.

    Attributes:
        name: ``baseline``, ``first 1`` … for the written points, ``point 1`` … for others.
        point: The point.
        changes: Where it differs from the baseline; a parameter that it lacks is left out.
        command: The whole command. ``{port}``, ``{python}`` and ``{model}`` stand for what only the
            start, or the build, tells.
        env: The variables that the recipe and the search space set for the server.
        secrets: Variables that are filled in at the start, with the names to take them from.
    """

    name: str
    point: Point
    changes: Point
    command: tuple[str, ...]
    env: dict[str, str]
    secrets: dict[str, str]

    @property
    def line(self) -> str:
        """All of it as one line for a shell."""
        return shell_line(self.command, self.env, self.secrets)

    def as_json(self) -> dict[str, Any]:
        """The preview as JSON-ready data."""
        return {**asdict(self), "command": list(self.command)}


def previews(space: SearchSpace, context: Context, *, count: int = 3) -> tuple[Preview, ...]:
    """The starts of the baseline, of the first points, and of a few other points.

    Args:
        space: The search space.
        context: The machine and the workloads.
        count: How many other points.

    Raises:
        RecipeError: When a recipe cannot be launched as the search space asks.
        UserError: When a model is to be made that nothing can make.
    """
    start = baseline(space, context)
    wanted = [("baseline", start)]
    wanted += [(f"first {n}", one) for n, one in enumerate(first_points(space, context), 1)]
    wanted += [(f"point {n}", one) for n, one in enumerate(specimens(space, context, count), 1)]
    engines = {
        name: foresee(load_recipe(name), launch=space.engine.launch) for name in space.recipes
    }
    models = {model.name: model for model in space.models}
    found = []
    for name, point in wanted:
        deployment = resolve(space, point, context)
        engine = engines[deployment.recipe]
        changes = {item: value for item, value in point.items() if start.get(item, ...) != value}
        found.append(
            Preview(
                name=name,
                point=point,
                changes=changes,
                command=_command(space, deployment, engine, models[deployment.model]),
                env=environment(engine.env, deployment),
                secrets=dict(deployment.secrets),
            )
        )
    return tuple(found)


def _command(
    space: SearchSpace, deployment: Deployment, engine: Foreseen, model: ModelChoice
) -> tuple[str, ...]:
    here = _model(model, engine)
    if deployment.launch == "docker":
        # Inside its container a server listens for all; the port is published on 127.0.0.1.
        words = server_command(engine.server, MODEL_INSIDE, deployment)
        return (*words, "--host", "0.0.0.0", "--port", str(PORT_INSIDE))  # noqa: S104
    words = server_command(engine.server, here, deployment)
    port = space.engine.port
    return (*words, "--host", HOST, "--port", "{port}" if port is None else str(port))


def _model(model: ModelChoice, engine: Foreseen) -> str:
    """The model's folder on this machine."""
    if model.make is None:
        return str(model.path)
    folder = model_folder(model.make, engine.digest or "", seed=model.seed)
    return "{model}" if engine.digest is None else str(folder)


def as_lines(space: SearchSpace, context: Context, *, count: int = 3) -> list[str]:
    """The whole search space for people, with the commands of :func:`previews`.

    Raises:
        SpaceError: When the space does not hold together on this machine.
    """
    found = [*describe(space, context), *(f"note: {note}" for note in _unchecked(space))]
    commands = list(_commands(space, previews(space, context, count=count)))
    return [*found, "commands:", *(f"  {line}" for line in commands)]


def _unchecked(space: SearchSpace) -> Iterator[str]:
    """What this command cannot vouch for: flags that nobody listed, and models that lie elsewhere."""
    for name in space.recipes:
        if load_recipe(name).flags() is None:
            yield (
                f"recipe {name} lists no flags, so a mistyped one is not found here: the engine is asked "
                "before each start, and now by tuner validate --ask"
            )
    for model in space.models:
        if model.path is not None and not model.path.is_dir():
            yield f"the model {model.path} is not on this machine"


def _commands(space: SearchSpace, starts: tuple[Preview, ...]) -> Iterator[str]:
    for choice in space.engines:
        recipe = load_recipe(choice.recipe)
        engine = foresee(recipe, launch=space.engine.launch)
        if space.engine.launch == "docker":
            image = recipe.spec.base.image
            name = choice.image or (image.ref if image else "the image you have")
            yield f"recipe {recipe.name}: in a container of {name}, the model seen as {MODEL_INSIDE}"
        elif engine.digest is not None:
            state = "built" if engine.built else "not built yet"
            yield f"recipe {recipe.name}: {state}, digest {engine.digest[:12]}"
    for one in starts:
        said = ", ".join(f"{name} {key(value)}" for name, value in one.changes.items())
        yield f"{one.name}:{f' {said}' if said else ''}"
        yield f"    {one.line}"


def as_json(space: SearchSpace, context: Context, *, count: int = 3) -> dict[str, Any]:
    """The whole search space as JSON-ready data, with the commands of :func:`previews`.

    Raises:
        SpaceError: When the space does not hold together on this machine.
    """
    check(space, context)
    found = axes(space, context)
    endless = any(axis.size is None for axis in found)
    return {
        "file": str(space.source.file),
        "study": space.study,
        "fingerprint": space.fingerprint,
        "points": None if endless else grid_size(space, context),
        "axes": [{"name": axis.name, "kind": axis.kind, "values": axis.size} for axis in found],
        "space": _finite(space.document.model_dump(mode="python", by_alias=True)),
        "known_to_expressions": dict(context.facts),
        "notes": [*notes(space, context), *_unchecked(space)],
        "commands": [one.as_json() for one in previews(space, context, count=count)],
    }


def _finite(value: Any) -> Any:
    """Data without what JSON has no form for: infinity becomes the text that servers are given."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return text_of(value) if isinstance(value, float) and math.isinf(value) else value

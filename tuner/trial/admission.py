"""What a search space and an engine must agree on before anything is started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tuner.build import Recipe, find_recipe, load_recipe, model_names
from tuner.errors import RecipeError
from tuner.launch import ports
from tuner.spec import SearchSpace
from tuner.spec.mends import nearest
from tuner.spec.outcomes import outcomes
from tuner.spec.settings import ModelChoice, recipe_name
from tuner.spec.strict_yaml import Place
from tuner.trial.profiled import SWITCH


def check_targets(space: SearchSpace) -> None:
    """Refuse what the recipes do not know, before anything is built.

    That is a flag or a variable that the engine does not read, a model that nothing can make, a way to
    launch that a recipe has no base for, a profile of an engine that has none, and a pattern of
    variables that no engine is given.

    Raises:
        SpaceError: At the first such one, with its line.
        RecipeError: When a recipe cannot be accepted.
    """
    _check_makers(space)
    _check_recipes(space)
    recipes = tuple(map(load_recipe, space.recipes))
    _check_drops(space, recipes)
    for recipe in recipes:
        _check_profile(space, recipe)
        _check_launch(space, recipe)
        _check_flags(space, recipe)
        for place, name in _variables(space):
            known = recipe.variables()
            if known and not recipe.knows_env(name):
                near = nearest(name, known)
                raise space.source.error(
                    place,
                    f"recipe {recipe.name} knows no variable {name}",
                    f"did you mean {near}?" if near else "see knows in the recipe",
                )


def _check_recipes(space: SearchSpace) -> None:
    """Refuse a recipe that is not there, at the line that names it."""
    places: list[tuple[Place, str]] = [(("engine", "recipe"), space.engine.recipe)]
    for section, key, declared in (
        ("parameters", "choices", space.parameters),
        ("computed", "value", space.computed),
    ):
        for name, target in declared.items():
            if target.setting == "recipe":
                texts = outcomes(space.document, name)
                places += [((section, name, key), text) for text in texts]
    for place, text in places:
        try:
            find_recipe(recipe_name(text, space.source))
        except RecipeError as error:
            said = (
                f"{error.message.removesuffix(' here')} in {error.file}"
                if error.file
                else error.message
            )
            raise space.source.error(place, said, error.mend) from error


def _check_makers(space: SearchSpace) -> None:
    known = model_names()
    for model in space.models:
        if model.make is not None and model.make.replace("-", "_") not in known:
            names = ", ".join(name.replace("_", "-") for name in known)
            raise space.source.error(
                ("engine", "model"), f"nothing makes the model {model.make}", f"known are {names}"
            )


def check_models(space: SearchSpace) -> None:
    """Refuse a model that is not there, before anything is built.

    Raises:
        SpaceError: At the first such one, with its line.
    """
    for model in space.models:
        if model.make is None:
            model_folder(space, model)


def model_folder(space: SearchSpace, model: ModelChoice) -> Path:
    """The folder of a model on disk.

    Raises:
        SpaceError: When it is not there.
    """
    if model.path is None or not model.path.is_dir():
        raise space.source.error(
            ("engine", "model"),
            f"there is no model at {model.path}",
            "give the folder that holds its config.json",
        )
    return model.path


def _check_launch(space: SearchSpace, recipe: Recipe) -> None:
    launch, base = space.engine.launch, recipe.spec.base
    needed = base.venv if launch == "process" else base.image
    if base.existing is None and needed is None:
        other = "docker" if launch == "process" else "process"
        raise space.source.error(
            ("engine", "launch"),
            f"recipe {recipe.name} cannot be launched as {launch}",
            f"write launch: {other}, or add a base for it to a recipe of your own",
        )


def _check_profile(space: SearchSpace, recipe: Recipe) -> None:
    """Refuse to profile an engine that knows of no profile."""
    if space.document.decode_profile and recipe.variables() and not recipe.knows_env(SWITCH):
        raise space.source.error(
            ("decode_profile",),
            f"recipe {recipe.name} knows no variable {SWITCH}, so its engine cannot be profiled",
            "leave it out: what times the stages is for vLLM 0.32",
        )


def _check_drops(space: SearchSpace, recipes: Iterable[Recipe]) -> None:
    """Refuse a pattern that would drop nothing from an export."""
    given = {name for _, name in _variables(space)}
    for recipe in recipes:
        given |= recipe.spec.env.keys() | recipe.spec.container.env.keys()
    for index, pattern in enumerate(space.export.drop_env):
        if not any(fnmatchcase(name, pattern) for name in given):
            raise space.source.error(
                ("export", "drop_env", index),
                f"{pattern} drops nothing, as no engine is given such a variable",
                "delete it",
            )


def uses_devices(space: SearchSpace) -> bool:
    """Whether any engine of a search space runs on accelerators, as its recipes say."""
    containers = [load_recipe(name).spec.container for name in space.recipes]
    return any(c.gpus != "none" or c.devices for c in containers)


def check_port(space: SearchSpace) -> None:
    """Refuse a port that somebody holds, before anything is built.

    Raises:
        PortTaken: When the search space asks for a port that is taken.
    """
    if space.engine.port is not None:
        ports.require_free(space.engine.port)


def _check_flags(space: SearchSpace, recipe: Recipe) -> None:
    known = recipe.flags()
    if known is None:
        return
    forms = {_bare(flag) for flag in known}
    for place, flag in _flags(space):
        if _bare(flag) not in forms:
            near = nearest(flag, sorted(known))
            mend = f"did you mean {near}?" if near else "see the recipe's own list of flags"
            raise space.source.error(place, f"recipe {recipe.name} knows no flag {flag}", mend)


def _flags(space: SearchSpace) -> Iterator[tuple[Place, str]]:
    for flag in space.engine.flags:
        yield ("engine", "flags", flag), flag
    for section, declared in (("parameters", space.parameters), ("computed", space.computed)):
        for name, target in declared.items():
            if target.flag is not None:
                yield (section, name, "flag"), target.flag
    for name, parameter in space.parameters.items():
        for label, effects in (parameter.bundle or {}).items():
            for flag in effects.flags:
                yield ("parameters", name, "bundle", label), flag


def _variables(space: SearchSpace) -> Iterator[tuple[Place, str]]:
    for name in space.engine.env:
        yield ("engine", "env", name), name
    for section, declared in (("parameters", space.parameters), ("computed", space.computed)):
        for name, target in declared.items():
            if target.env is not None:
                yield (section, name, "env"), target.env
    for name, parameter in space.parameters.items():
        for label, effects in (parameter.bundle or {}).items():
            for variable in effects.env:
                yield ("parameters", name, "bundle", label), variable


def _bare(flag: str) -> str:
    """A flag in the one form in which all its spellings are equal."""
    return flag.replace("_", "-").removeprefix("--no-").removeprefix("--")

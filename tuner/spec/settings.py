"""The model of a deployment as one text, and back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tuner.spec.deployment import engine_name
from tuner.spec.document import MadeModel, StoredModel
from tuner.spec.strict_yaml import Document, Place
from tuner.spec.uses import resolved

_MADE = re.compile(r"make:(?P<make>[a-z0-9][a-z0-9._-]*):(?P<seed>\d{1,10})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model that a deployment serves.

    Attributes:
        name: As :attr:`Deployment.model` has it: ``make:tiny-hybrid:0``, or an absolute path.
        make: The maker, for a model that is made on the spot.
        seed: Seed of its weights.
        path: Where it lies, for a model on disk.
    """

    name: str
    make: str | None = None
    seed: int = 0
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine that a deployment is started with.

    Attributes:
        recipe: As :attr:`Deployment.recipe` has it.
        image: The image in place of the recipe's own; None for its own, and for a process.
    """

    recipe: str
    image: str | None = None

    @property
    def name(self) -> str:
        """As :attr:`Deployment.engine` has it."""
        return engine_name(self.recipe, self.image)


def engine_model(model: MadeModel | StoredModel, source: Document) -> ModelChoice:
    """The model that the engine is declared with."""
    if isinstance(model, MadeModel):
        return ModelChoice(f"make:{model.make}:{model.seed}", model.make, model.seed)
    return _stored(model.path, source)


def model_choice(text: str, source: Document) -> ModelChoice:
    """The model that one value of a parameter names.

    Args:
        text: ``make:NAME:SEED``, or a path, relative to the search space.
        source: The search space's file.
    """
    if found := _MADE.fullmatch(text):
        return ModelChoice(text, found["make"], int(found["seed"]))
    return _stored(text, source)


def recipe_name(text: str, source: Document) -> str:
    """A recipe as deployments name it: its name, or the absolute path of its folder."""
    return str(resolved(text, source)) if "/" in text else text


def check_model_text(text: str, place: Place, source: Document) -> None:
    """Check a model that a parameter names.

    Raises:
        SpaceError: When it begins as a made model and is none.
    """
    if text.startswith("make:") and not _MADE.fullmatch(text):
        raise source.error(place, f"{text!r} is no model", "write make:NAME:SEED, or a path")


def _stored(text: str, source: Document) -> ModelChoice:
    path = resolved(text, source)
    return ModelChoice(str(path), path=path)

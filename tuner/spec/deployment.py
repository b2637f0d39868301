"""A deployment: one point of the search space, resolved to what will really be started."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import dataclass
from typing import Any

Scalar = str | int | float | bool | None
"""A value of a parameter as the search space writes it and the ledger keeps it."""


def engine_name(recipe: str, image: str | None = None) -> str:
    """What an engine is called among those of a study: by its recipe, and its image where one is chosen."""
    return recipe if image is None else f"{recipe} on {image}"


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is started for a trial.

    Attributes:
        recipe: Name of the engine's recipe, or the absolute path of its folder.
        model: The model: ``make:NAME:SEED`` for one made on the spot, else an absolute path.
        launch: How it is started: ``process`` or ``docker``.
        argv: Arguments of the server, without the interpreter, model, served name, host and port,
            which the launcher adds.
        env: Environment of the server, in the order of the names.
        served_name: The model's name in requests.
        secrets: Variables of the server whose values are taken from the tuner's own environment
            when the server starts, each with the name to take it from; in the order of the names.
        files: Files that arguments and variables point to, with the SHA-256 of their content.
        image: The image that the engine is, or is built on, where the search space chooses one.
        version: The engine's version, where the search space chooses one.
    """

    recipe: str
    model: str
    launch: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    served_name: str
    secrets: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    image: str | None = None
    version: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The deployment as JSON-ready data; :meth:`from_json` reads it back."""
        return {
            "recipe": self.recipe,
            "model": self.model,
            "launch": self.launch,
            "argv": list(self.argv),
            "env": dict(self.env),
            "served_name": self.served_name,
            "secrets": dict(self.secrets),
            "files": dict(self.files),
            "image": self.image,
            "version": self.version,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Deployment:
        """The deployment that :meth:`as_json` wrote."""
        return cls(
            recipe=data["recipe"],
            model=data["model"],
            launch=data["launch"],
            argv=tuple(data["argv"]),
            env=tuple(sorted(data["env"].items())),
            served_name=data["served_name"],
            secrets=tuple(sorted(data.get("secrets", {}).items())),
            files=tuple(sorted(data.get("files", {}).items())),
            image=data.get("image"),
            version=data.get("version"),
        )

    @property
    def engine(self) -> str:
        """The name of its engine among those of a study."""
        return engine_name(self.recipe, self.image)

    @property
    def digest(self) -> str:
        """SHA-256 of the whole, for telling whether two points are the same deployment."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()

    @property
    def command_line(self) -> str:
        """The arguments and variables as a shell would take them, for people to read."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.env]
        hidden = [f'{name}="${source}"' for name, source in self.secrets]
        return " ".join([*variables, *hidden, "vllm-server", *map(shlex.quote, self.argv)])

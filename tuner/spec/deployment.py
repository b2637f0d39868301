"""A deployment: one point of the search space, resolved to what will really be started."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

Scalar = str | int | float | bool | None
"""A value of a parameter as the search space writes it and the ledger keeps it."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is started for a trial.

    Attributes:
        recipe: Name of the engine's recipe.
        model: The model as the search space names it.
        launch: How it is started: ``process`` or ``docker``.
        argv: Arguments of the server, without the interpreter, host and port, which the launcher adds.
        env: Environment of the server, in the order of the names.
        served_name: The model's name in requests.
    """

    recipe: str
    model: str
    launch: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    served_name: str

    def as_json(self) -> dict[str, Any]:
        """The deployment as JSON-ready data; :meth:`from_json` reads it back."""
        return {
            "recipe": self.recipe,
            "model": self.model,
            "launch": self.launch,
            "argv": list(self.argv),
            "env": dict(self.env),
            "served_name": self.served_name,
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
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the whole, for telling whether two points are the same deployment."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()

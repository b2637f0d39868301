"""The forms in which a deployment is written down, by the name that a user gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from tuner.export import compose, computility, kubernetes, shell, systemd
from tuner.export.served import Served

Form = Literal["computility-run", "compose", "systemd", "kubernetes", "shell"]


@dataclass(frozen=True, slots=True)
class _Writer:
    name: Callable[[Served], str]
    text: Callable[[Served], str]


_WRITERS: dict[Form, _Writer] = {
    "compose": _Writer(lambda _: compose.NAME, compose.render),
    "systemd": _Writer(systemd.file_name, systemd.render),
    "kubernetes": _Writer(lambda _: kubernetes.NAME, kubernetes.render),
    "shell": _Writer(lambda _: shell.NAME, shell.render),
}


def platform_files(content: computility.RunFile, origin: dict[str, Any]) -> dict[str, str]:
    """The files of the form ``computility-run``, by name.

    Args:
        content: What the platform is to run.
        origin: Where it comes from, as JSON-ready data.
    """
    return _with_origin(computility.NAME, computility.render(content).decode(), origin)


def files(form: Form, served: Served, origin: dict[str, Any]) -> dict[str, str]:
    """The files of any other form, by name; the first one is what people look for.

    Args:
        form: The form.
        served: What is deployed.
        origin: Where it comes from, as JSON-ready data.

    Raises:
        UserError: When the form cannot say this deployment.
    """
    writer = _WRITERS[form]
    return _with_origin(writer.name(served), writer.text(served), origin)


def _with_origin(name: str, text: str, origin: dict[str, Any]) -> dict[str, str]:
    beside = f"{PurePath(name).stem}.provenance.json"
    return {name: text, beside: json.dumps(origin, indent=2, sort_keys=True) + "\n"}

"""Where an engine's package comes from: its own environment, and no source tree that shadows it."""

from __future__ import annotations

from tuner.errors import UserError
from tuner.launch.preflight import Preflight


def own_package(engine: str, asker: Preflight) -> str | None:
    """The file that an engine's package is imported from; None where its interpreter has no such package.

    Args:
        engine: The engine's name.
        asker: A process in its environment.

    Raises:
        UserError: When it is not of the engine's environment: what is measured would not be what
            was built.
    """
    found = asker.package()
    if found is None:
        return None
    if not found.own:
        raise UserError(
            f"engine {engine} imports vllm from {found.path}, which is not of its environment",
            mend="take that folder off the engine's import path (a .pth file, a sitecustomize), or "
            "install it there: pip install -e",
        )
    return found.path


def words(engine: str, path: str) -> str:
    """What is said of it."""
    return f"engine {engine} imports vllm from {path}"

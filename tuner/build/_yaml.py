"""How the build room reads YAML: with the strict reader of the search space, its errors as a recipe's."""

from __future__ import annotations

from pathlib import Path

from tuner.errors import RecipeError, SpaceError
from tuner.spec.strict_yaml import Document, parse_document


def read_yaml(path: Path) -> Document:
    """A YAML file, strictly read.

    Raises:
        RecipeError: When it cannot be read or is not strict YAML.
    """
    try:
        return parse_document(path.read_bytes(), path)
    except SpaceError as error:
        raise RecipeError(error.message, file=path, line=error.line, mend=error.mend) from error
    except OSError as error:
        raise RecipeError(f"cannot be read: {error.strerror}", file=path) from error

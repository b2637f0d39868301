"""How the build room reads YAML: plain data, and the line on which each value stands.

This is the one place that knows which loader is used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tuner.errors import RecipeError

Location = tuple[int | str, ...]


def read_yaml(path: Path) -> tuple[Any, Callable[[Location], int | None]]:
    """The data of a YAML file, and a function from a place in it to its line.

    Args:
        path: The file.

    Raises:
        RecipeError: When the file is not well-formed YAML.
    """
    text = path.read_text(encoding="utf-8")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise RecipeError(
            f"not well-formed YAML: {getattr(error, 'problem', None) or error}",
            file=path,
            line=line,
        ) from error
    return data, lambda where: _line(node, where)


def _line(node: yaml.Node | None, where: Location) -> int | None:
    """The line of the deepest node on the way to ``where`` that the file has."""
    line = None if node is None else node.start_mark.line + 1
    for part in where:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part] if part < len(node.value) else None
        elif isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == part), None)
            if pair is None:
                continue  # pydantic puts the tag of a union into the path
            line, node = pair[0].start_mark.line + 1, pair[1]
            continue
        if node is None:
            break
        line = node.start_mark.line + 1
    return line

"""The JSON Schema of search spaces, for editors: ``python -m tuner.spec.schema`` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tuner.files import write_atomic
from tuner.spec.document import SpaceDocument

FILE = Path("docs/reference/search_space.schema.json")


def schema() -> dict[str, Any]:
    """The schema, made from the models and their docstrings."""
    found = SpaceDocument.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Search space of tuner",
        **{key: _untitled(value) for key, value in found.items() if key != "title"},
    }


def rendered() -> str:
    """The schema as the committed file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _untitled(value: Any) -> Any:
    """The schema without the titles that repeat each key; ``title`` as a property stays."""
    if isinstance(value, dict):
        return {
            key: _untitled(item)
            for key, item in value.items()
            if not (key == "title" and isinstance(item, str))
        }
    return [_untitled(item) for item in value] if isinstance(value, list) else value


def main(arguments: list[str]) -> None:
    """Write the schema to the file that is named, or to its place in the checkout."""
    write_atomic(Path(arguments[0]) if arguments else FILE, rendered())


if __name__ == "__main__":
    main(sys.argv[1:])

"""What an editor with the committed schema says about a search space."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema_rs

from tuner.spec.schema import FILE
from tuner.spec.strict_yaml import parse_document

_SCHEMA = jsonschema_rs.validator_for(json.loads(FILE.read_text(encoding="utf-8")))


def complaints(text: str) -> list[str]:
    """What the schema has against the content of a file, with the place of each."""
    data = _plain(parse_document(text, Path("space.yaml")).data)
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in _SCHEMA.iter_errors(data)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and math.isinf(value):
        return math.copysign(1e308, value)  # JSON has no infinity; an editor sees a number
    return [_plain(item) for item in value] if isinstance(value, tuple) else value

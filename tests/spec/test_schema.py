from __future__ import annotations

import json
from pathlib import Path

from tuner.spec import schema
from tuner.spec.document import SpaceDocument


def test_the_committed_schema_is_current() -> None:
    assert schema.FILE.read_text(encoding="utf-8") == schema.rendered(), (
        "write it anew: python -m tuner.spec.schema"
    )


def test_it_can_be_written_anywhere(tmp_path: Path) -> None:
    schema.main([str(tmp_path / "schema.json")])
    assert json.loads((tmp_path / "schema.json").read_text()) == schema.schema()


def test_every_key_is_described() -> None:
    """Editors show the descriptions; a key without one is a key that nobody can find out about."""
    found = schema.schema()
    parts = {"": found, **found["$defs"]}
    missing = [
        f"{name}.{key}"
        for name, part in parts.items()
        for key, value in part.get("properties", {}).items()
        if not value.get("description")
    ]
    assert missing == []


def test_unknown_keys_are_unknown_to_editors_too() -> None:
    found = schema.schema()
    assert set(found["properties"]) == set(SpaceDocument.model_fields)
    assert found["additionalProperties"] is False
    assert all(
        part.get("additionalProperties") is False
        for part in found["$defs"].values()
        if "properties" in part
    )
    assert "title" not in json.dumps(found["$defs"]["Parameter"])

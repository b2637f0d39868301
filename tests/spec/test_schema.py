from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spec.conftest import filled
from tests.spec.editor import complaints
from tests.spec.mistakes import Mistake, mistakes
from tuner.errors import SpaceError
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


@pytest.mark.parametrize("file", sorted(Path("search_spaces").glob("*.yaml")), ids=lambda f: f.name)
def test_the_search_spaces_that_ship_are_valid(file: Path) -> None:
    assert complaints(file.read_text(encoding="utf-8")) == []


def _seen(text: str) -> bool:
    try:
        return complaints(filled(text)) != []
    except SpaceError:
        return True  # no YAML as it is read here, which no editor takes either


@pytest.mark.parametrize("mistake", mistakes(), ids=str)
def test_an_editor_marks_what_a_schema_can_know(mistake: Mistake) -> None:
    assert _seen(mistake.text) is mistake.seen


@pytest.mark.parametrize(
    "text",
    [
        "engine: {recipe: cpu, model: {make: x}, flags: {--x: {file: a}, --y: {list: [1], join: comma}}}",
        "engine: {recipe: cpu, model: {path: x}, flags: {--x: {a: [1, {b: null}]}, -tp: .inf, y: true}}",
        "engine: {recipe: cpu, model: {path: x}, env: {A: {from_env: B}, C: {file: d}, D: 1.5, E: ''}}",
        "parameters: {p: {flag: --x, choices: [null, a, 1, .inf, [1, 2], {file: f}], join: comma, baseline: null}}",
        "workload: {kind: official_like, output_tokens: {min: 1, max: 4, shape: log}}",
        "workload: {kind: decode_curve, concurrencies: [1], prompt_tokens: {median: 3, p90: 4, max: 9}}",
        "memory: {host: 1GiB, device_floor: 2.5 %}",
        "budget: {wall: 1h30m, engine: 90}",
    ],
)
def test_every_form_that_may_be_written_is_valid(text: str) -> None:
    assert complaints(filled(text)) == []

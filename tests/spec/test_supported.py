from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.errors import SpaceError
from tuner.spec import SearchSpace, supported

Build = Callable[..., SearchSpace]

EVERYTHING = """
engine: {recipe: cpu, model: {make: x}, launch: docker}
parameters:
  image: {setting: image, choices: [a, b], baseline: a}
computed:
  version: {setting: version, value: "'1' if image == 'a' else '2'"}
workload: {kind: decode_curve, concurrencies: [1, 2]}
"""


def test_everything_that_is_not_runnable_is_named_with_its_place(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KINDS", "LAUNCHES", "SETTINGS"):
        monkeypatch.setattr(supported, name, frozenset())
    space = build(EVERYTHING, any_version=True)
    assert [place for place, _ in supported.unsupported(space.document)] == [
        ("engine", "launch"),
        ("workload", "kind"),
        ("parameters", "image", "setting"),
        ("computed", "version", "setting"),
    ]
    with pytest.raises(SpaceError, match=r"space.yaml:2: launch: docker cannot be run by this"):
        build(EVERYTHING)


def test_what_is_runnable_is_accepted(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supported, "KINDS", frozenset({"decode_curve"}))
    monkeypatch.setattr(supported, "LAUNCHES", frozenset({"docker"}))
    monkeypatch.setattr(supported, "SETTINGS", frozenset({"image", "version"}))
    assert build(EVERYTHING).engine.launch == "docker"


def test_a_version_is_refused_with_what_to_write_in_its_place(build: Build) -> None:
    mend = "choose among versions of an engine with setting: recipe, or with setting: image"
    with pytest.raises(SpaceError, match=f"setting: version cannot be run by this .* — {mend}$"):
        build(EVERYTHING)

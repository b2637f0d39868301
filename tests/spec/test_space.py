from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.spec import Load, SearchSpace
from tuner.spec.values import FileValue

Build = Callable[..., SearchSpace]


def test_it_gives_all_that_the_file_declares(build: Build, tmp_path: Path) -> None:
    space = build(
        """
        study: a-study
        seed: 5
        engine: {recipe: ./mine, model: {path: models/m}}
        export: {dir: "out/{study}/x"}
        """
    )
    assert (space.study, space.seed) == ("a-study", 5)
    assert space.recipes == (str(tmp_path / "mine"),)
    assert [(model.name, model.make) for model in space.models] == [
        (str(tmp_path / "models" / "m"), None)
    ]
    assert space.export.dir == "out/a-study/x"
    (load,) = space.loads
    assert isinstance(load, Load)
    assert (load.name, load.weight, load.workload.kind) == ("main", 1.0, "conversations")
    assert (space.groups, space.computed, space.rules) == ({}, {}, ())


def test_spaces_are_not_compared_as_objects(build: Build) -> None:
    one, two = build(""), build("")
    assert one != two
    assert len({one, two}) == 2
    assert one.fingerprint == two.fingerprint


def test_values_stand_behind_the_values_of_points(build: Build, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    space = build(
        """
        parameters:
          file: {flag: --xa, choices: [{file: f}, f, [1, 2]], join: comma, baseline: f}
          inf: {flag: --xb, choices: [.inf, 1], baseline: 1}
          range: {flag: --xc, integer: {low: 1, high: 9}, baseline: 1}
          tp: {flag: -tp, baseline: 1}
        groups: {g: {points: [{tp: 1}, {tp: auto}]}}
        """
    )
    assert space.choice("file", {"file": "f"}) == FileValue(file="f")
    assert space.choice("file", "f") == "f"
    assert space.choice("file", [1, 2]) == (1, 2)
    assert space.choice("inf", "inf") == float("inf")
    assert space.choice("range", 7) == 7
    assert space.choice("tp", "auto") == "auto"
    with pytest.raises(KeyError):
        space.choice("file", {"file": "other"})
    assert space.members("g") == ("tp",)
    assert space.members("inf") == ("inf",)

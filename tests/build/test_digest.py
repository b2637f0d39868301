from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.build.digest import engine_digest, files_digest, named_files


def _tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def test_times_and_places_do_not_count(tmp_path: Path) -> None:
    one = _tree(tmp_path / "one", {"recipe.yaml": b"x", "files/a.py": b"y"})
    two = _tree(tmp_path / "two", {"files/a.py": b"y", "recipe.yaml": b"x"})
    os.utime(one / "recipe.yaml", (0, 0))
    assert files_digest(one, {}) == files_digest(two, {})


@pytest.mark.parametrize(
    "name",
    [
        "__pycache__/a.pyc",
        "a.pyc",
        ".mypy_cache/x",
        "thing.egg-info/PKG",
        "build/lib/a.py",
        "native/k.so",
    ],
)
def test_what_running_leaves_behind_does_not_count(tmp_path: Path, name: str) -> None:
    source = _tree(tmp_path / "source", {"pyproject.toml": b"x", "native/build/keep.py": b"z"})
    recipe = _tree(tmp_path / "recipe", {"recipe.yaml": b"x"})
    before = files_digest(recipe, {"source": source})
    _tree(source, {name: b"left"})
    assert files_digest(recipe, {"source": source}) == before


def test_a_library_that_a_recipe_ships_counts(tmp_path: Path) -> None:
    recipe = _tree(tmp_path, {"recipe.yaml": b"x", "kernel.so": b"1"})
    before = files_digest(recipe, {})
    (recipe / "kernel.so").write_bytes(b"2")
    assert files_digest(recipe, {}) != before


def test_a_folder_called_build_inside_a_package_is_source(tmp_path: Path) -> None:
    source = _tree(tmp_path, {"src/pkg/build/__init__.py": b""})
    assert [name for name, _ in named_files(source)] == ["src/pkg/build/__init__.py"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    one=st.dictionaries(st.sampled_from(["a", "b", "c/d", "c/e"]), st.binary(max_size=4)),
    two=st.dictionaries(st.sampled_from(["a", "b", "c/d", "c/e"]), st.binary(max_size=4)),
)
def test_trees_have_one_digest_exactly_when_they_are_equal(
    tmp_path_factory: pytest.TempPathFactory, one: dict[str, bytes], two: dict[str, bytes]
) -> None:
    place = tmp_path_factory.mktemp("trees")
    left, right = place / "left", place / "right"
    left.mkdir()
    right.mkdir()
    same = files_digest(_tree(left, one), {}) == files_digest(_tree(right, two), {})
    assert same == (one == two)


def test_what_it_is_built_on_is_part_of_the_key() -> None:
    keys = {
        engine_digest("f", kind="venv", base="cpython-311"),
        engine_digest("f", kind="venv", base="cpython-312"),
        engine_digest("f", kind="image", base="cpython-311"),
        engine_digest("g", kind="venv", base="cpython-311"),
    }
    assert len(keys) == 4

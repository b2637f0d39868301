from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.build import fill_wheelhouse, load_recipe
from tuner.errors import BuildFailed, RecipeError

STEPS = """
steps:
  - {name: first, do: pip, requirements: first.txt}
  - {name: second, do: pip, requirements: second.txt}
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip finds wheels in, instead of any index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "no-index").as_uri())
    for name in ("alpha", "beta"):
        _wheel(folder, name)
    return folder


def _wheel(folder: Path, name: str) -> None:
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        info = f"{name}-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.mark.slow
def test_every_lock_file_is_fetched_once(
    make_recipe: Callable[..., Path], index: Path, cache: Path, tmp_path: Path
) -> None:
    recipe = load_recipe(
        make_recipe(STEPS, files={"first.txt": "alpha==1.0\n", "second.txt": "beta==1.0\n"})
    )
    wheels = fill_wheelhouse(recipe, tmp_path / "house", cache=cache)
    assert [wheel.name.partition("-")[0] for wheel in wheels] == ["alpha", "beta"]
    for wheel in index.iterdir():
        wheel.unlink()
    assert fill_wheelhouse(recipe, tmp_path / "house", cache=cache) == wheels


@pytest.mark.slow
def test_a_wheel_that_is_not_to_be_had_is_named(
    make_recipe: Callable[..., Path], index: Path, cache: Path, tmp_path: Path
) -> None:
    recipe = load_recipe(
        make_recipe(STEPS, files={"first.txt": "alpha==1.0\n", "second.txt": "gamma==1.0\n"})
    )
    with pytest.raises(BuildFailed, match=r"gamma==1\.0 is on none of the configured indexes"):
        fill_wheelhouse(recipe, tmp_path / "house", cache=cache)


def test_a_recipe_without_an_environment_does_not_say_which_wheels(
    make_recipe: Callable[..., Path], cache: Path, tmp_path: Path
) -> None:
    head = "format: 1\nname: x\nabout: x\nbase: {existing: {}}\nserver: [x]\n"
    with pytest.raises(RecipeError, match="no venv base"):
        fill_wheelhouse(load_recipe(make_recipe(head=head)), tmp_path / "house", cache=cache)


@pytest.mark.slow
def test_an_engine_is_built_from_a_wheelhouse_alone(
    make_recipe: Callable[..., Path], index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuner.build import build_engine

    recipe = load_recipe(
        make_recipe(STEPS, files={"first.txt": "alpha==1.0\n", "second.txt": "beta==1.0\n"})
    )
    monkeypatch.setenv("TUNER_WHEELHOUSE", str(index))
    monkeypatch.delenv("PIP_FIND_LINKS")
    engine = build_engine(recipe, cache=cache)
    code = "import importlib.metadata as m; print(m.version('alpha'), m.version('beta'))"
    ran = subprocess.run([engine.python, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "1.0 1.0\n"
    assert engine.python != Path(sys.executable)

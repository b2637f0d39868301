from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.build import Engine, build_engine, extra_packages, load_recipe
from tuner.build.load import Recipe
from tuner.errors import BuildFailed, UserError

MakeRecipe = Callable[..., Path]

PIP = """
import sys
from pathlib import Path
target = Path(sys.argv[sys.argv.index("--target") + 1])
lock = Path(sys.argv[sys.argv.index("--requirement") + 1])
assert "--no-deps" in sys.argv
if lock.read_text() == "broken\\n":
    sys.exit("no such package")
(target / "installed.py").write_text(f"WHAT = {lock.read_text()!r}\\n")
with open(Path(__file__).parent / "count", "a") as count:
    count.write("x")
"""


@pytest.fixture
def recipe(make_recipe: MakeRecipe) -> Recipe:
    """A recipe whose engine has a pip of ours, which writes down what it was asked for."""
    body = (
        "steps:\n  - {name: pip, do: copy, file: pip.py, to: '{site}/pip.py'}\n"
        "extras: {tests: tests.txt}\n"
    )
    return load_recipe(make_recipe(body, files={"pip.py": PIP, "tests.txt": "thing==1\n"}))


@pytest.fixture
def engine(recipe: Recipe, cache: Path) -> Engine:
    return build_engine(recipe, cache=cache)


def test_they_lie_beside_the_engine_and_are_installed_once(engine: Engine, recipe: Recipe) -> None:
    folder = extra_packages(engine, recipe, "tests")
    assert folder.parent == engine.root
    assert (folder / "installed.py").read_text() == "WHAT = 'thing==1\\n'\n"
    assert extra_packages(engine, recipe, "tests") == folder
    counts = list(engine.root.glob("venv/lib/*/site-packages/count"))
    assert [count.read_text() for count in counts] == ["x"]


def test_half_an_installation_is_never_taken_for_a_whole_one(
    engine: Engine, recipe: Recipe
) -> None:
    folder = extra_packages(engine, recipe, "tests")
    dead = folder.with_name(f".{folder.name}.dead")
    folder.rename(dead)
    assert extra_packages(engine, recipe, "tests") == folder
    assert not dead.exists()


def test_a_failure_leaves_nothing(engine: Engine, recipe: Recipe) -> None:
    (recipe.folder / "tests.txt").write_text("broken\n")
    with pytest.raises(BuildFailed, match="no such package"):
        extra_packages(engine, recipe, "tests")
    assert list(engine.root.glob("*extra-*")) == []


def test_an_unknown_extra_is_answered_with_the_known(engine: Engine, recipe: Recipe) -> None:
    with pytest.raises(UserError, match="known are tests"):
        extra_packages(engine, recipe, "docs")

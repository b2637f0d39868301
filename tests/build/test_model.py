from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.build import Engine, build_engine, load_recipe, make_model
from tuner.errors import BuildFailed, UserError

RecipeMaker = Callable[..., Path]

pytestmark = pytest.mark.slow

MAKER = """
import sys
from pathlib import Path
out = Path(sys.argv[1])
if "--fail=1" in sys.argv:
    sys.exit("no such shape")
work = out.with_name(f".{out.name}.work")
work.mkdir()
(work / "arguments").write_text(" ".join(sys.argv[2:]))
work.rename(out)
with (out.parent / "made").open("a") as log:
    log.write("x")
"""


@pytest.fixture
def engine(make_recipe: RecipeMaker, cache: Path) -> Engine:
    return build_engine(load_recipe(make_recipe()), cache=cache)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    models = tmp_path / "data" / "engine" / "models"
    models.mkdir(parents=True)
    (models / "tiny_thing.py").write_text(MAKER)
    return tmp_path / "data"


def test_a_model_is_made_once_for_each_seed(engine: Engine, cache: Path, data_dir: Path) -> None:
    def make(seed: int) -> Path:
        return make_model(engine, "tiny-thing", seed=seed, cache=cache, data_dir=data_dir)

    first = make(0)
    assert first.parent == cache / "models"
    assert (first / "arguments").read_text() == "--seed=0"
    assert make(0) == first
    assert make(1) != first
    assert (cache / "models" / "made").read_text() == "xx"


def test_options_are_part_of_it(engine: Engine, cache: Path, data_dir: Path) -> None:
    model = make_model(
        engine, "tiny_thing", options={"layers": 8, "experts": 4}, cache=cache, data_dir=data_dir
    )
    assert (model / "arguments").read_text() == "--seed=0 --experts=4 --layers=8"


def test_what_a_dead_maker_left_is_removed(engine: Engine, cache: Path, data_dir: Path) -> None:
    model = make_model(engine, "tiny-thing", cache=cache, data_dir=data_dir)
    dead = model.with_name(f".{model.name}.work")
    model.rename(dead)
    assert make_model(engine, "tiny-thing", cache=cache, data_dir=data_dir) == model
    assert not dead.exists()


def test_an_unknown_model_is_answered_with_the_known(
    engine: Engine, cache: Path, data_dir: Path
) -> None:
    with pytest.raises(UserError, match=r"'huge'.*known are tiny_thing"):
        make_model(engine, "huge", cache=cache, data_dir=data_dir)


def test_a_maker_that_fails_is_shown(engine: Engine, cache: Path, data_dir: Path) -> None:
    with pytest.raises(BuildFailed, match="no such shape"):
        make_model(engine, "tiny-thing", options={"fail": 1}, cache=cache, data_dir=data_dir)

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tuner.build import build_engine, foresee, load_recipe, make_model, model_folder
from tuner.build.foresee import PYTHON
from tuner.errors import RecipeError, UserError

RECIPE: dict[str, Any] = {
    "format": 1,
    "name": "small",
    "about": "nothing but an environment",
    "base": {"venv": {"pythons": [f"3.{sys.version_info.minor}"], "disk": "10MiB"}},
    "server": ["{python}", "-m", "server"],
    "env": {"A": "1"},
}


def written(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "recipe.yaml").write_text(json.dumps({**RECIPE, **changes}))
    return folder


def test_what_is_foreseen_of_an_environment_is_what_is_built(tmp_path: Path) -> None:
    recipe = load_recipe(written(tmp_path / "recipe"))
    before = foresee(recipe, launch="process", cache=tmp_path / "cache")
    assert not before.built
    engine = build_engine(recipe, cache=tmp_path / "cache")
    after = foresee(recipe, launch="process", cache=tmp_path / "cache")
    assert after.built
    assert (after.server, after.digest) == (before.server, before.digest)
    assert (before.server, before.digest) == (engine.server, engine.digest)
    assert before.env == dict(engine.env) == {"A": "1"}


def test_an_engine_that_is_there_has_its_interpreter_and_no_digest_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe(written(tmp_path / "recipe", base={"existing": {"image_python": "py"}}))
    assert foresee(recipe, launch="process").server == (sys.executable, "-m", "server")
    monkeypatch.setenv("TUNER_ENGINE_PYTHON", "/opt/engine/bin/python")
    found = foresee(recipe, launch="process")
    assert found.server[0] == "/opt/engine/bin/python"
    assert (found.digest, found.built) == (None, False)
    assert foresee(recipe, launch="docker").server[0] == "py"


def test_inside_an_image_the_interpreter_is_the_images_own(tmp_path: Path) -> None:
    image = {"ref": "a:1", "python": "python3.10", "disk": "1GiB"}
    recipe = load_recipe(
        written(tmp_path / "recipe", base={"image": image}, container={"env": {"B": "2"}})
    )
    found = foresee(recipe, launch="docker")
    assert found.server == ("python3.10", "-m", "server")
    assert found.env == {"A": "1", "B": "2"}
    with pytest.raises(RecipeError, match="cannot be launched as process"):
        foresee(recipe, launch="process")
    own = load_recipe(written(tmp_path / "own", base={"image": {**image, "venv": True}}))
    assert foresee(own, launch="docker").server[0].endswith("/venv/bin/python")


def test_another_machines_interpreter_is_not_guessed(tmp_path: Path) -> None:
    recipe = load_recipe(
        written(tmp_path / "recipe", base={"venv": {"pythons": ["3.1"], "disk": "1GiB"}})
    )
    found = foresee(recipe, launch="process")
    assert found.server[0] == PYTHON
    assert found.digest is None


def test_a_made_model_lies_where_it_was_foreseen(tmp_path: Path) -> None:
    data = tmp_path / "data"
    makers = data / "engine" / "models"
    makers.mkdir(parents=True)
    (makers / "tiny_one.py").write_text(
        "import pathlib, sys\npathlib.Path(sys.argv[1]).mkdir()\nprint(sys.argv[2:])\n"
    )
    shutil.copytree("engine/enginex", data / "engine" / "enginex")
    engine = build_engine(load_recipe(written(tmp_path / "recipe")), cache=tmp_path / "cache")
    where: dict[str, Any] = {"seed": 3, "cache": tmp_path / "cache", "data_dir": data}
    foreseen = model_folder("tiny-one", engine.digest, **where)
    assert not foreseen.exists()
    assert make_model(engine, "tiny-one", **where) == foreseen
    assert model_folder("tiny-one", engine.digest, **{**where, "seed": 4}) != foreseen
    with pytest.raises(UserError, match=r"there is no model 'gone'.*known are tiny_one"):
        model_folder("gone", engine.digest, **where)

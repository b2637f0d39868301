from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.build import Engine, build_engine, load_recipe, verify_engine
from tuner.errors import BuildFailed, RecipeError, UserError

RecipeMaker = Callable[..., Path]

HEAD = """\
format: 1
name: mine
about: an interpreter of my own
base: {existing: {}}
server: ["{python}", "-m", "http.server"]
env: {MINE: "1"}
"""


@pytest.fixture
def use(make_recipe: RecipeMaker, cache: Path) -> Callable[..., Engine]:
    def build(body: str = "", head: str = HEAD) -> Engine:
        return build_engine(load_recipe(make_recipe(body, head=head)), cache=cache)

    return build


def test_tuners_own_interpreter_is_used_where_none_is_named(use: Callable[..., Engine]) -> None:
    engine = use()
    assert engine.kind == "existing"
    assert engine.python == Path(sys.executable)
    assert engine.server[0] == sys.executable
    assert dict(engine.fingerprint.packages)["pytest"] == pytest.__version__
    assert engine.fingerprint.vllm is None
    assert use() == engine


def test_a_link_into_an_environment_is_not_followed(
    use: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Following it would lose the environment: only the link's own path has the packages beside it."""
    link = tmp_path / "venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(Path(sys.executable).resolve())
    (tmp_path / "venv" / "pyvenv.cfg").write_text(
        f"home = {Path(sys.executable).resolve().parent}\ninclude-system-site-packages = false\n"
    )
    monkeypatch.setenv("TUNER_ENGINE_PYTHON", str(link))
    engine = use()
    assert engine.python == link
    assert engine.fingerprint.packages == ()


def test_a_changed_package_makes_another_engine(
    use: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages" / "thing-1.0.dist-info"
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    head = HEAD.replace('{MINE: "1"}', f"{{PYTHONPATH: {packages.parent}}}")
    first = use(head=head)
    assert dict(first.fingerprint.packages)["thing"] == "1.0"
    (packages / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.1\n")
    assert use(head=head).digest != first.digest


def test_its_checks_are_run_and_nothing_is_left_when_one_fails(
    use: Callable[..., Engine], cache: Path
) -> None:
    with pytest.raises(BuildFailed, match="install it"):
        use("checks:\n  - {name: vllm, do: import, module: nothere_vllm, mend: install it}\n")
    assert [path for path in (cache / "engines").iterdir() if path.is_dir()] == []


def test_it_is_verified_like_any_other(
    use: Callable[..., Engine], make_recipe: RecipeMaker
) -> None:
    body = "checks:\n  - {name: json, do: import, module: json}\n"
    engine = use(body)
    recipe = load_recipe(make_recipe(body, head=HEAD))
    assert [(result.name, result.ok) for result in verify_engine(engine, recipe)] == [
        ("json", True)
    ]


@pytest.mark.parametrize("kind", ["missing", "not executable"])
def test_what_is_no_interpreter_is_refused(
    use: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "python"
    if kind != "missing":
        path.write_text("")
    monkeypatch.setenv("TUNER_ENGINE_PYTHON", str(path))
    with pytest.raises(UserError, match="TUNER_ENGINE_PYTHON"):
        use()


def test_a_program_that_is_no_python_is_refused(
    use: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\necho I am a shell\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("TUNER_ENGINE_PYTHON", str(path))
    with pytest.raises(UserError, match="I am a shell"):
        use()


def test_a_recipe_that_is_not_for_this_way_to_launch_is_refused(
    make_recipe: RecipeMaker, cache: Path
) -> None:
    with pytest.raises(RecipeError, match=r"cannot be launched as docker.*launch: process"):
        build_engine(load_recipe(make_recipe()), cache=cache, launch="docker")


def test_a_container_needs_an_image_that_is_named(
    make_recipe: RecipeMaker, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUNER_ENGINE_IMAGE", raising=False)
    with pytest.raises(UserError, match="TUNER_ENGINE_IMAGE"):
        build_engine(load_recipe(make_recipe(head=HEAD)), cache=cache, launch="docker")


def test_no_docker_is_said_plainly(
    make_recipe: RecipeMaker, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_ENGINE_IMAGE", "any")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nothing/here.sock")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    with pytest.raises(UserError, match=r"no Docker daemon answers|no docker command"):
        build_engine(load_recipe(make_recipe(head=HEAD)), cache=cache, launch="docker")

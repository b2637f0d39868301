"""What goes into an image; that images are built from it for real is in test_image_build.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.build import load_recipe
from tuner.build.image import _context, dockerfile
from tuner.errors import RecipeError

RecipeMaker = Callable[..., Path]

HEAD = """\
format: 1
name: fake
about: an image for tests
base:
  image: {ref: "debian:bookworm-slim", disk: 1MiB, venv: VENV, packages: [libnuma1, python3]}
server: ["{python}", "-m", "http.server"]
env: {PLAIN: "1", ODD: 'a "quoted" $HOME \\'}
steps:
  - {name: one, do: run, argv: ["echo", "a b", "$HOME"]}
  - {name: two, do: copy, file: data.txt, to: "{root}/data.txt"}
"""


def _text(make_recipe: RecipeMaker, *, venv: bool, wheels: bool = False) -> str:
    head = HEAD.replace("VENV", str(venv).lower())
    recipe = load_recipe(make_recipe(head=head, files={"data.txt": "x"}))
    assert recipe.spec.base.image is not None
    return dockerfile(recipe, recipe.spec.base.image, "base@sha256:1", "d" * 64, wheels=wheels)


def test_every_step_runs_on_its_own_in_exec_form(make_recipe: RecipeMaker) -> None:
    lines = _text(make_recipe, venv=False).splitlines()
    steps = [line for line in lines if "apply" in line]
    assert steps == [
        f'RUN ["python3", "-m", "tuner_inside", "apply", "plan.json", "{number}"]'
        for number in (0, 1)
    ]
    assert "FROM base@sha256:1 AS base" in lines
    assert lines[-2:] == ["ENTRYPOINT []", "CMD []"]


def test_nothing_swallows_an_exit_status(make_recipe: RecipeMaker) -> None:
    text = _text(make_recipe, venv=True, wheels=True)
    assert "|| true" not in text
    assert "| tee" not in text
    assert ";" not in text.replace("; }", "")


def test_values_of_the_environment_survive_quoting(make_recipe: RecipeMaker) -> None:
    text = _text(make_recipe, venv=False)
    assert 'ENV PLAIN="1"' in text
    assert 'ENV ODD="a \\"quoted\\" \\$HOME \\\\"' in text


def test_an_environment_is_built_in_a_stage_that_is_left_behind(make_recipe: RecipeMaker) -> None:
    lines = _text(make_recipe, venv=True, wheels=True).splitlines()
    stages = [line for line in lines if line.startswith("FROM")]
    assert stages == ["FROM base@sha256:1 AS base", "FROM base AS build", "FROM base"]
    last = lines[lines.index("FROM base") :]
    assert "COPY --from=build /opt/tuner-engine /opt/tuner-engine" in last
    assert not any("wheels" in line for line in last)


def test_the_same_recipe_makes_the_same_context(make_recipe: RecipeMaker, tmp_path: Path) -> None:
    head = HEAD.replace("VENV", "true")
    recipe = load_recipe(make_recipe(head=head, files={"data.txt": "x", "run.sh": "echo\n"}))
    assert recipe.spec.base.image is not None
    seen = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        context = _context(recipe, recipe.spec.base.image, "base", "d", tmp_path / name, None)
        seen.append(
            [
                (
                    path.relative_to(context).as_posix(),
                    path.read_bytes() if path.is_file() else b"",
                    path.stat().st_mode,
                    path.stat().st_mtime if "engine" in path.parts else 0,
                )
                for path in sorted(context.rglob("*"))
            ]
        )
        os.utime(recipe.folder / "data.txt", (0, 0))
    assert seen[0] == seen[1]
    assert not any(b"\r\n" in content for _, content, _, _ in seen[0])


def test_wheels_are_in_the_context_only_as_links(make_recipe: RecipeMaker, tmp_path: Path) -> None:
    recipe = load_recipe(make_recipe(head=HEAD.replace("VENV", "true"), files={"data.txt": "x"}))
    assert recipe.spec.base.image is not None
    house = tmp_path / "house"
    house.mkdir()
    (house / "a-1-py3-none-any.whl").write_text("wheel")
    (house / "readme.txt").write_text("no wheel")
    context = _context(recipe, recipe.spec.base.image, "base", "d", tmp_path, house)
    assert [path.name for path in (context / "wheels").iterdir()] == ["a-1-py3-none-any.whl"]
    assert (context / "wheels" / "a-1-py3-none-any.whl").samefile(house / "a-1-py3-none-any.whl")


def test_a_step_that_would_be_lost_with_its_stage_is_refused(make_recipe: RecipeMaker) -> None:
    head = HEAD.replace("VENV", "true").replace("{root}/data.txt", "/etc/data.txt")
    with pytest.raises(RecipeError, match=r"step 'two' writes to /etc/data.txt"):
        load_recipe(make_recipe(head=head, files={"data.txt": "x"}))


@pytest.mark.parametrize(
    "word",
    ["./patch.sh || true", "make | tee log", "a || :", "a; true", "set +e; a", "x || exit 0"],
)
def test_a_command_that_hides_a_failure_is_refused(make_recipe: RecipeMaker, word: str) -> None:
    body = f"steps:\n  - {{name: one, do: run, argv: [sh, -c, '{word}']}}\n"
    with pytest.raises(RecipeError, match="hides the exit status"):
        load_recipe(make_recipe(body))


@pytest.mark.parametrize("word", ["a || b", "a && true-thing", "echo teeth", "a | sort"])
def test_an_honest_command_is_not(make_recipe: RecipeMaker, word: str) -> None:
    body = f"steps:\n  - {{name: one, do: run, argv: [sh, -c, '{word}']}}\n"
    assert load_recipe(make_recipe(body)).name == "fake"

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tuner.build import load_recipe, recipe_names
from tuner.errors import RecipeError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The shipped recipes, beside a package that stands in for the kernels."""
    shutil.copytree(ROOT / "engine" / "recipes", tmp_path / "data" / "engine" / "recipes")
    enginex = tmp_path / "data" / "engine" / "enginex"
    enginex.mkdir()
    (enginex / "pyproject.toml").write_text("[project]\nname = 'enginex'\n")
    return tmp_path / "data"


def test_a_recipe_says_what_it_declares(make_recipe: Callable[..., Path]) -> None:
    recipe = load_recipe(make_recipe())
    assert recipe.name == "fake"
    assert recipe.spec.env == {"FAKE_SERVING": "1"}
    assert recipe.sources == ()


def test_every_shipped_recipe_is_accepted(data_dir: Path) -> None:
    names = recipe_names(data_dir)
    assert "cpu" in names
    for name in names:
        assert load_recipe(name, data_dir=data_dir).name == name


def test_the_cpu_recipe_knows_the_flags_of_its_vllm(data_dir: Path) -> None:
    recipe = load_recipe("cpu", data_dir=data_dir)
    flags = recipe.flags()
    assert flags is not None
    assert {
        "--max-num-seqs",
        "--tensor-parallel-size",
        "-tp",
        "--no-enable-prefix-caching",
    } <= flags
    assert "--num-scheduler-steps" not in flags  # gone from this version
    assert recipe.knows_env("VLLM_CPU_KVCACHE_SPACE")
    assert recipe.knows_env("ENGINEX_MOE_TINY_IMPL")
    assert not recipe.knows_env("LD_PRELOAD")


def test_what_acts_on_an_engine_alone_is_known_to_its_recipe(data_dir: Path) -> None:
    cuda, bi100 = (load_recipe(name, data_dir=data_dir) for name in ("cuda", "bi100"))
    assert cuda.knows_env("ENGINEX_STEP_RECORDS")
    assert cuda.knows_env("VLLM_ATTENTION_BACKEND") is False  # gone from vLLM 0.32: a flag now
    assert not cuda.knows_env("ENGINEX_MOE_TINY_IMPL")
    assert bi100.knows_env("ENGINEX_MOE_TINY_IMPL")
    assert bi100.knows_env("VLLM_ATTENTION_BACKEND")
    assert not bi100.knows_env("ENGINEX_MOE_HUGE_PAGES")
    flags = bi100.flags()
    assert flags is not None
    assert {"--num-scheduler-steps", "--reasoning-parser", "-tp", "--chat-template"} <= flags
    assert "--compilation-config" not in flags  # of later versions


def test_the_cpu_lock_files_pin_every_package_once(data_dir: Path) -> None:
    recipe = load_recipe("cpu", data_dir=data_dir)
    seen: list[str] = []
    for file in sorted(recipe.folder.glob("*.txt")):
        if file.name in {"flags.txt", "tests.txt"}:
            continue
        for line in file.read_text().splitlines():
            if line and not line.startswith("#"):
                name, equals, version = line.split(";")[0].strip().partition("==")
                assert equals, f"{file.name}: {line}"
                assert version, f"{file.name}: {line}"
                seen.append(name.lower())
    assert len(seen) == len(set(seen)) > 100


def test_tuner_and_an_engine_fit_into_one_environment(data_dir: Path) -> None:
    """What ``pip install enginex-tuner[engine]`` must find: no requirement of tuner's excludes vLLM's."""
    lines = (data_dir / "engine" / "recipes" / "cpu" / "requirements.txt").read_text().splitlines()
    pinned = [Requirement(line) for line in lines if line and not line.startswith("#")]
    known = {canonicalize_name(one.name): str(one.specifier)[2:] for one in pinned}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shared = [
        one
        for one in map(Requirement, project["dependencies"])
        if canonicalize_name(one.name) in known
    ]
    assert len(shared) > 8
    for one in shared:
        version = known[canonicalize_name(one.name)]
        assert one.specifier.contains(version), f"{one} excludes the engine's {version}"


def test_an_unknown_name_is_answered_with_the_nearest(data_dir: Path) -> None:
    with pytest.raises(RecipeError, match=r"'cpuu'.*did you mean cpu"):
        load_recipe("cpuu", data_dir=data_dir)


def test_a_folder_without_a_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no recipe\.yaml"):
        load_recipe(tmp_path)


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("surprise: 1\n", 11, "surprise"),
        ("steps:\n  - name: a\n    do: pip\n    requirement: x.txt\n", 14, "requirement"),
        ("steps:\n  - name: a\n    do: pip\n", 12, "either requirements or source"),
        ("steps:\n  - name: a\n    do: shell\n", 12, "do"),
        ("steps:\n  - {name: A b, do: copy, file: x, to: y}\n", 12, "name"),
        (
            "steps:\n  - {name: a, do: run, argv: [x]}\n  - {name: a, do: run, argv: [y]}\n",
            1,
            "'a' is declared twice",
        ),
        ("checks:\n  - {name: a, do: callable, target: no-colon}\n", 12, "target"),
        ("knows: {env: [lower]}\n", 11, "knows.env.0"),
        (
            "steps:\n  - {name: a, do: patch, targets: [x], before: [y], verify: z}\n",
            12,
            "diff or edits",
        ),
        ("steps: [\n", 12, "this is not YAML"),
    ],
)
def test_a_mistake_is_shown_with_its_line(
    make_recipe: Callable[..., Path], body: str, line: int, message: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(make_recipe(body))
    assert message in str(caught.value)
    assert caught.value.file is not None
    assert caught.value.file.name == "recipe.yaml"
    assert caught.value.line == line


def test_a_number_where_text_belongs_is_refused(make_recipe: Callable[..., Path]) -> None:
    with pytest.raises(RecipeError, match="pythons"):
        load_recipe(
            make_recipe(
                head="format: 1\nname: fake\nabout: x\nbase: {venv: {pythons: [3.11], disk: 1MiB}}\n"
                "server: [x]\n"
            )
        )


@pytest.mark.parametrize("base", ["{}", "{existing: {}, venv: {pythons: ['3.11'], disk: 1MiB}}"])
def test_a_recipe_needs_a_base_that_makes_sense(
    make_recipe: Callable[..., Path], base: str
) -> None:
    with pytest.raises(RecipeError, match="base"):
        load_recipe(
            make_recipe(head=f"format: 1\nname: fake\nabout: x\nbase: {base}\nserver: [x]\n")
        )


@pytest.mark.parametrize("name", ["missing.txt", "../outside.txt", "/etc/hostname"])
def test_a_step_names_only_files_of_the_recipe(make_recipe: Callable[..., Path], name: str) -> None:
    folder = make_recipe(f"steps:\n  - {{name: a, do: pip, requirements: {name}}}\n")
    (folder.parent / "outside.txt").write_text("x")
    with pytest.raises(RecipeError, match=r"step 'a' names"):
        load_recipe(folder)


def test_a_source_that_is_not_there_is_refused(
    make_recipe: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_recipe("steps:\n  - {name: a, do: pip, source: nothere}\n")
    with pytest.raises(RecipeError, match="no package 'nothere'"):
        load_recipe(folder, data_dir=tmp_path)


def test_crlf_in_a_script_is_named_with_step_line_and_mend(
    make_recipe: Callable[..., Path],
) -> None:
    folder = make_recipe(
        "steps:\n  - {name: setup, do: copy, file: setup.sh, to: '{root}/setup.sh'}\n",
        files={"setup.sh": b"#!/bin/sh\necho one\r\necho two\r\n"},
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe(folder)
    assert caught.value.file == folder / "setup.sh"
    assert caught.value.line == 2
    assert "step 'setup'" in str(caught.value)
    assert "sed -i" in str(caught.value)


def test_carriage_returns_in_a_binary_are_nobodys_business(
    make_recipe: Callable[..., Path],
) -> None:
    folder = make_recipe(files={"kernel.bin": b"\0\x7fELF\r\n"})
    assert load_recipe(folder).name == "fake"


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("env: {A: '1'}\n", 11, "'env' stands twice, first in line 9"),
        ("steps: &x []\n", 11, "anchors are not taken"),
        ("checks: [!!python/name:os.system '']\n", 11, "tags are not taken"),
    ],
)
def test_what_yaml_could_hide_is_refused(
    make_recipe: Callable[..., Path], body: str, line: int, message: str
) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        load_recipe(make_recipe(body))
    assert caught.value.line == line

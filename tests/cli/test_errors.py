"""A mistake of the user's: one line that says where and what to do, exit 2, nothing left behind."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from tuner.cli import main

SPACE = (Path(__file__).parents[2] / "search_spaces" / "local_cpu.yaml").read_text()


BEFORE_RULES = SPACE[: SPACE.index("rules:")].count("\n")
RECIPE_CHOICES = """
  which:
    setting: recipe
    choices: [cpu, ./mine]
    baseline: cpu
"""


def tuner(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tuner", *words])
    with pytest.raises(SystemExit) as ended:
        main.run()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1\n", "space.yaml:"),
        ("", "space.yaml:1"),
        (SPACE.replace("seed: 7", "sede: 7"), "did you mean seed"),
        (SPACE.replace("--max-num-seqs", "--max-num-sqs"), "did you mean --max-num-seqs"),
        (SPACE.replace("env: ENGINEX_MOE_TINY_IMPL", "env: ENGINX_MOE"), "knows no variable"),
        (
            SPACE.replace("recipe: cpu", "recipe: cpuu"),
            "space.yaml:12: there is no recipe 'cpuu' — did you mean cpu? known are bi100, cpu, cuda,",
        ),
        (
            SPACE.replace("rules:", RECIPE_CHOICES + "\nrules:"),
            f"space.yaml:{BEFORE_RULES + 4}: there is no recipe.yaml in ",
        ),
        (
            SPACE.replace("env: VLLM_CPU_KVCACHE_SPACE", "env: VLLM_CPU_KV_CACHE_SPACE"),
            "KV_CACHE_SPACE — did you mean VLLM_CPU_KVCACHE_SPACE?",
        ),
        (SPACE.replace("study: local-cpu", "study: local-cpu\nstudy: again"), "space.yaml:8"),
        (SPACE.replace("baseline: 512", "baseline: 500"), "500"),
    ],
    ids=[
        "malformed",
        "empty",
        "unknown key",
        "unknown flag",
        "unknown variable",
        "recipe",
        "recipe of a parameter",
        "variable",
        "twice",
        "baseline",
    ],
)
def test_a_bad_search_space_is_one_line(
    text: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    space, state = tmp_path / "space.yaml", tmp_path / "state"
    space.write_text(text)
    assert tuner(monkeypatch, "--state", str(state), "run", str(space)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("tuner: ")
    assert "Traceback" not in error
    assert not state.exists()


def test_a_missing_search_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tuner(monkeypatch, "--state", str(tmp_path / "s"), "run", str(tmp_path / "no.yaml")) == 2
    assert "no.yaml" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_an_unwritable_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "space.yaml").write_text(SPACE)
    (tmp_path / "file").touch()
    state = tmp_path / "file" / "state"
    assert tuner(monkeypatch, "--state", str(state), "run", str(tmp_path / "space.yaml")) == 2
    assert "is not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "deeper/still"])
@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("trials", "any"),
        ("doctor",),
        ("queue",),
        ("report", "any"),
        ("export", "any"),
        ("logs", "any", "0"),
        ("clean", "--dry-run"),
    ],
    ids=lambda words: words[0],
)
def test_a_state_folder_that_is_a_file(
    words: tuple[str, ...],
    below: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    assert tuner(monkeypatch, "--state", str(tmp_path / "file" / below), *words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert "is not a folder" in line


def test_no_study_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tuner(monkeypatch, "--state", str(tmp_path), "trials", "nothing") == 2
    assert "no study" in capsys.readouterr().err


def test_a_full_disk_is_said_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "space.yaml").write_text(SPACE)
    full = os.statvfs_result((4096, 4096, 1000, 10, 10, 1000, 10, 10, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    assert (
        tuner(
            monkeypatch,
            "--state",
            str(tmp_path / "s"),
            "run",
            "--foreground",
            str(tmp_path / "space.yaml"),
        )
        == 2
    )
    assert "disk" in capsys.readouterr().err or "space" in capsys.readouterr().err
    assert not list((tmp_path / "cache" / "engines").glob("cpu-*/venv"))


@pytest.mark.slow
def test_help_has_an_example_for_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        "init",
        "run",
        "resume",
        "validate",
        "attach",
        "stop",
        "pause",
        "queue",
        "page",
        "status",
        "trials",
        "show",
        "logs",
        "export",
        "report",
        "verdict",
        "score",
        "doctor",
        "clean",
    ):
        assert tuner(monkeypatch, command, "--help") == 0
        assert "Example" in capsys.readouterr().out, command


def test_a_port_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        (tmp_path / "space.yaml").write_text(
            SPACE.replace("launch: process", f"launch: process\n  port: {port}")
        )
        assert (
            tuner(monkeypatch, "--state", str(tmp_path / "s"), "run", str(tmp_path / "space.yaml"))
            == 2
        )
    assert f"port {port} on 127.0.0.1 is taken" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()

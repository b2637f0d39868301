"""The script, read by shellcheck and run by the shells that are here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.export.samples import CARDS, CONTAINER, ENVIRONMENTS, FLAGS, NVIDIA, PROCESS
from tuner.export import shell
from tuner.export.served import Served

SHELLS = [name for name in ("dash", "bash", "sh") if shutil.which(name)]
_TELL = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def told(script: Path, *more: str, sh: str = "sh", **env: str) -> tuple[list[str], dict[str, str]]:
    """The words and the environment that a script gives to what it starts."""
    done = subprocess.run(
        [sh, str(script), *more],
        env={"PATH": os.environ["PATH"], "MY_TOKEN": "canary-12", **env},
        capture_output=True,
        text=True,
        check=True,
    )
    words, found = json.loads(done.stdout)
    # Shells give these to whatever they start.
    return words, {k: v for k, v in found.items() if k not in {"PWD", "OLDPWD", "SHLVL", "_"}}


def telling(served: Served, folder: Path, *words: str) -> Path:
    """The script of a deployment whose server only tells what it was given."""
    script = folder / shell.NAME
    command = (sys.executable, "-I", "-S", "-c", _TELL, *words)
    script.write_text(shell.render(replace(served, command=command)), encoding="utf-8")
    return script


@pytest.mark.parametrize("sh", SHELLS)
def test_a_server_gets_its_words_its_variables_and_nothing_else_of_mine(
    tmp_path: Path, sh: str
) -> None:
    script = telling(PROCESS, tmp_path, "--model", "/m", "--name", "a b")
    words, env = told(
        script, "--more", "'", sh=sh, PORT="9001", PYTHONPATH="/mine", VLLM_X="1", TZ="UTC"
    )
    assert words[:4] == ["--model", "/m", "--name", "a b"]
    assert words[4:] == ["--host", "127.0.0.1", "--port", "9001", "--more", "'"]
    assert env.pop("PATH") == os.environ["PATH"]
    env.pop("LC_CTYPE", None)  # the interpreter's own
    assert env == {
        "A": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0|1",
        "HF_TOKEN": "canary-12",
        "TZ": "UTC",
    }


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=FLAGS, env=ENVIRONMENTS)
def test_any_text_arrives_as_it_is(
    tmp_path: Path, words: tuple[str, ...], env: tuple[tuple[str, str], ...]
) -> None:
    script = telling(replace(PROCESS, env=env, secrets=()), tmp_path, *words)
    found, given_env = told(script)
    assert tuple(found[: len(words)]) == words
    assert dict(env).items() <= given_env.items()


def test_a_secret_that_is_not_set_stops_it_with_its_name(tmp_path: Path) -> None:
    script = telling(PROCESS, tmp_path)
    done = subprocess.run(
        ["sh", str(script)], env={"PATH": os.environ["PATH"]}, capture_output=True, check=False
    )
    assert done.returncode != 0
    assert b"MY_TOKEN" in done.stderr


@pytest.mark.parametrize("served", [PROCESS, CONTAINER, CARDS, NVIDIA])
def test_shellcheck_finds_nothing(tmp_path: Path, served: Served) -> None:
    script = tmp_path / shell.NAME
    script.write_text(shell.render(served))
    done = subprocess.run([SHELLCHECK, script], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def docker_words(served: Served, folder: Path, **env: str) -> list[str]:
    """What the script of a container asks of docker; a program of that name stands in."""
    standin = folder / "bin" / "docker"
    standin.parent.mkdir()
    standin.write_text(f"#!{sys.executable}\n{_TELL}\n")
    standin.chmod(0o755)
    script = folder / shell.NAME
    script.write_text(shell.render(served))
    words, given_env = told(script, PATH=f"{standin.parent}:{os.environ['PATH']}", **env)
    for name, _ in served.secrets:
        assert given_env[name] == "canary-12"
    assert "canary-12" not in words
    return words


def pairs(words: list[str], option: str) -> list[str]:
    return [b for a, b in pairwise(words) if a == option]


def test_a_container_is_started_as_in_the_trial(tmp_path: Path) -> None:
    words = docker_words(CARDS, tmp_path, PORT="9002")
    assert words[0] == "run"
    assert pairs(words, "--publish") == ["127.0.0.1:9002:8000"]
    assert pairs(words, "--device") == [f"/dev/iluvatar{n}:/dev/iluvatar{n}:rwm" for n in (0, 1)]
    assert pairs(words, "--memory") == pairs(words, "--memory-swap") == [str(3 * 2**30)]
    assert pairs(words, "--cap-drop") == ["ALL"]
    assert pairs(words, "--cap-add") == ["SYS_NICE"]
    assert pairs(words, "--mount")[-1] == (
        'type=bind,"source=/srv/a, b/chat.jinja","target=/srv/a, b/chat.jinja",readonly'
    )
    assert {"HF_TOKEN", "A=1", "HOME=/tmp"} <= set(pairs(words, "--env"))
    image = words.index("tuner/cpu:0123456789ab")
    assert words[image + 1 :] == [
        "-m", "server", "--model", "/model", "--host", "0.0.0.0", "--port", "8000",  # noqa: S104
    ]  # fmt: skip


def test_gpus_are_asked_for_where_the_trial_had_them(tmp_path: Path) -> None:
    words: list[Any] = docker_words(NVIDIA, tmp_path)
    assert pairs(words, "--gpus") == ["all"]
    assert "--memory" not in words

"""The unit, read by systemd itself where it is there, and taken apart by its own rules."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.export.samples import CARDS, ENVIRONMENTS, FLAGS, PROCESS
from tuner.export import systemd
from tuner.export.served import Served

ANALYZE = shutil.which("systemd-analyze")


def read(text: str) -> tuple[list[str], dict[str, str], configparser.SectionProxy]:
    """The command, the environment, and all else of a unit."""
    joined = re.sub(r"\\\n *", "", text)
    variables = re.findall(r"^Environment=(.*)$", joined, flags=re.MULTILINE)
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as systemd, which minds case
    parser.read_string(joined)
    service = parser["Service"]
    words = [w.replace("$$", "$").replace("%%", "%") for w in shlex.split(service["ExecStart"])]
    pairs = [shlex.split(one)[0].replace("%%", "%").split("=", 1) for one in variables]
    return words, dict(pairs), service


@settings(max_examples=60)
@given(words=FLAGS, env=ENVIRONMENTS)
def test_what_is_written_reads_back_the_same(
    words: tuple[str, ...], env: tuple[tuple[str, str], ...]
) -> None:
    served = replace(PROCESS, command=("/bin/true", *words), env=env)
    command, found, _ = read(systemd.render(served))
    assert tuple(command) == ("/bin/true", *words, "--host", "127.0.0.1", "--port", "8000")
    assert found == dict(env)


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not on this machine")
@pytest.mark.parametrize("served", [PROCESS, CARDS])
def test_systemd_takes_it(tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "DOCKER", "/bin/true")
    # The words that are hardest to quote; systemd warns of any specifier or escape that it does not know.
    odd = ("--json", '{"a": "100%\\n"}', "--money", "$HOME ${X}", "--none", "")
    served = replace(served, command=("/bin/true", *served.command[1:], *odd))
    unit = tmp_path / systemd.file_name(served)
    unit.write_text(systemd.render(served))
    done = subprocess.run(
        [str(ANALYZE), "verify", "--user", "--man=no", str(unit)],
        env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert complaints == []
    assert done.returncode == 0, done.stderr


def test_secrets_come_from_a_file_that_only_the_user_reads() -> None:
    text = systemd.render(PROCESS)
    _, env, service = read(text)
    assert service["EnvironmentFile"] == "%h/.config/llm-one/secrets"
    assert "HF_TOKEN" not in env
    assert "Put HF_TOKEN into ~/.config/llm-one/secrets" in text
    assert "EnvironmentFile" not in systemd.render(replace(PROCESS, secrets=()))


def test_a_process_keeps_the_memory_limit_of_its_trial() -> None:
    _, _, service = read(systemd.render(PROCESS))
    assert service["MemoryMax"] == str(3 * 2**30)
    assert service["TimeoutStopSec"] == "60"


def test_a_container_is_started_by_docker_and_its_leftover_removed() -> None:
    words, _, service = read(systemd.render(CARDS))
    assert words[:3] == ["/usr/bin/docker", "run", "--rm"]
    assert words[words.index("--publish") + 1] == "127.0.0.1:8000:8000"
    assert service["ExecStartPre"] == "-/usr/bin/docker rm --force llm-one"
    assert "MemoryMax" not in service

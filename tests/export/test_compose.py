"""The compose file, held against the format's own schema, and read by docker-compose."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from hypothesis import given, settings

from tests.export.samples import CARDS, CONTAINER, CONTAINERS, ENVIRONMENTS, FLAGS, NVIDIA, PROCESS
from tuner.errors import UserError
from tuner.export import compose
from tuner.export.served import Served

SCHEMA = jsonschema_rs.validator_for(get_builtin_schema("vendor.compose-spec"))


def service(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(compose.render(served))["services"][served.name]
    return found


@pytest.mark.parametrize("served", CONTAINERS.values(), ids=CONTAINERS)
def test_it_keeps_to_the_schema(served: Served) -> None:
    SCHEMA.validate(yaml.safe_load(compose.render(served)))


@pytest.mark.slow
@settings(max_examples=60)
@given(words=FLAGS, env=ENVIRONMENTS)
def test_what_is_written_reads_back_the_same(
    words: tuple[str, ...], env: tuple[tuple[str, str], ...]
) -> None:
    found = service(replace(CONTAINER, command=("python3", *words), env=env, secrets=()))
    command = [word.replace("$$", "$") for word in found["command"]]
    assert found["entrypoint"] == ["python3"]
    assert tuple(command[: len(words)]) == words
    assert command[len(words) :] == ["--host", "0.0.0.0", "--port", "8000"]  # noqa: S104
    read = {name: value.replace("$$", "$") for name, value in found["environment"].items()}
    assert dict(env).items() <= read.items()


def test_secrets_are_named_and_must_be_set() -> None:
    assert ("HF_TOKEN", "${MY_TOKEN:?}") in service(CONTAINER)["environment"].items()


def test_the_container_has_the_rights_and_limits_of_its_trial() -> None:
    found = service(CARDS)
    assert found["cap_drop"] == ["ALL"]
    assert found["mem_limit"] == found["memswap_limit"] == str(3 * 2**30)
    assert found["devices"] == [f"/dev/iluvatar{n}:/dev/iluvatar{n}:rwm" for n in (0, 1)]
    assert all(volume["read_only"] for volume in found["volumes"])
    assert "user" not in found
    assert service(CONTAINER)["user"] == "1000:1000"
    assert found["ports"] == ["127.0.0.1:${PORT:-8000}:8000"]
    assert "deploy" not in found
    assert "mem_limit" not in service(NVIDIA)


def test_a_process_is_refused_with_the_mend() -> None:
    with pytest.raises(UserError) as caught:
        compose.render(PROCESS)
    assert "shell or systemd" in str(caught.value.mend)


@pytest.mark.docker
@pytest.mark.parametrize("served", CONTAINERS.values(), ids=CONTAINERS)
def test_docker_compose_reads_it_as_it_is_meant(tmp_path: Path, served: Served) -> None:
    odd = ("--json", '{"a": "$HOME 100%"}', "--count", "1e3", "--none", "")
    served = replace(served, command=(*served.command, *odd), env=(("X", "y"), ("Z", "$(a) $$")))
    (tmp_path / compose.NAME).write_text(compose.render(served))
    command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    done = subprocess.run(
        [*command, "config"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "MY_TOKEN": "canary-33", "PORT": "9003"},
        capture_output=True,
        text=True,
        check=True,
    )
    # What it prints is a compose file again, so dollars are doubled again.
    found = yaml.safe_load(done.stdout.replace("$$", "$"))["services"][served.name]
    assert found["command"][-len(odd) - 4 : -4] == list(odd)
    assert found["environment"]["X"] == "y"
    assert found["environment"]["Z"] == "$(a) $$"
    if served.secrets:
        assert ("HF_TOKEN", "canary-33") in found["environment"].items()
    assert "9003" in str(found["ports"])

"""An exported deployment, started by the very program that its form is for, and asked something."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tuner.export import shell
from tuner.trial.deliver import write_files


def asked(log: str) -> str:
    """What a server was started with, by its own words, without where it listens."""
    (line,) = re.findall(r"non-default args: (\{.*\})", log)
    return re.sub(r"'(host|port)': [^,}]*,? ?", "", line)


def answers(port: int, deadline: float = 30.0) -> dict[str, Any]:
    """A completion of a server that is starting."""
    end = time.monotonic() + deadline
    body = {"model": "llm", "prompt": "a", "max_tokens": 2}
    while True:
        try:
            found = httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=30)
            data: dict[str, Any] = found.raise_for_status().json()
        except httpx.HTTPError:
            assert time.monotonic() < end
            time.sleep(0.1)
        else:
            return data


@contextmanager
def container_of(
    files: Mapping[str, str], folder: Path, port: int, *, name: str
) -> Iterator[Callable[[], str]]:
    """Start what was exported as compose or as a shell script, and end it.

    Args:
        files: The export's texts.
        folder: Where to write them.
        port: The port that it is to serve on.
        name: The name that exports have for the study.

    Yields:
        Who reads the server's log.
    """
    write_files(folder, files)
    env = {**os.environ, "PORT": str(port), "COMPOSE_PROJECT_NAME": f"tuner-tests-{port}"}
    if shell.NAME in files:
        start, end = ["sh", shell.NAME], ["docker", "stop", "--time", "30", name]
        log = ["cat", "by-hand.log"]
    else:
        words = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
        start, end = [*words, "up", "--detach"], [*words, "down", "--timeout", "30"]
        log = [*words, "logs", "--no-color"]

    def read() -> str:
        return subprocess.run(
            log, cwd=folder, env=env, capture_output=True, text=True, check=True
        ).stdout

    with (folder / "by-hand.log").open("wb") as out:
        running = subprocess.Popen(start, cwd=folder, env=env, stdout=out, stderr=out)
        try:
            yield read
        finally:
            done = subprocess.run(end, cwd=folder, env=env, capture_output=True, check=False)
            running.wait(60)
    assert done.returncode == 0, done.stderr
    left = ["docker", "ps", "--all", "--quiet", "--filter", f"name={name}"]
    assert subprocess.run(left, capture_output=True, check=True).stdout == b""

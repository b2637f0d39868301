"""Docker as this room needs it: through its command line, so that a step ends with its process.

Every call is bounded in time. Containers started here have a name of their own and are removed by it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.build.host import host_needs
from tuner.build.process import build_env
from tuner.build.recipe import Container
from tuner.errors import UserError

_QUICK_S = 60.0
_PULL_S = 3600.0


def docker(*words: str, timeout_s: float = _QUICK_S, merged: bool = False) -> tuple[int, str]:
    """Run a docker command: its exit status, and what it printed.

    Args:
        words: The command.
        timeout_s: How long it may take.
        merged: Whether its error output belongs to the result too.

    Raises:
        UserError: When there is no docker command here, or it does not answer in time.
    """
    program = shutil.which("docker")
    if program is None:
        raise UserError(
            "there is no docker command on this machine",
            mend="install Docker, or use launch: process",
        )
    try:
        ended = subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            env=build_env(),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"docker {words[0]} did not answer in {timeout_s:.0f} s") from error
    if ended.returncode != 0 and not merged:
        return ended.returncode, ended.stderr.decode("utf-8", "replace")
    return ended.returncode, ended.stdout.decode("utf-8", "replace")


def require_daemon() -> None:
    """Insist on a daemon that answers.

    Raises:
        UserError: When none does.
    """
    status, said = docker("version", "--format", "{{.Server.Version}}")
    if status != 0:
        raise UserError(
            f"no Docker daemon answers: {_last(said)}", mend="start it, or name it in DOCKER_HOST"
        )


def data_folder() -> Path | None:
    """Where the daemon keeps its images, if that is on this machine."""
    status, said = docker("info", "--format", "{{.DockerRootDir}}")
    folder = Path(said.strip())
    return folder if status == 0 and folder.is_absolute() and folder.is_dir() else None


def inspect(kind: str, name: str) -> dict[str, Any] | None:
    """What the daemon knows of an ``image`` or ``container``; None where it has no such thing."""
    status, said = docker(kind, "inspect", name)
    if status != 0:
        return None
    found: list[dict[str, Any]] = json.loads(said)
    return found[0] if found else None


def image_id(name: str) -> str | None:
    """The identity of an image, or None where the daemon does not have it."""
    found = inspect("image", name)
    return None if found is None else str(found["Id"])


def require_image(name: str) -> str:
    """The identity of an image that the daemon has, or pulls now.

    Raises:
        UserError: When it has not and cannot.
    """
    if (known := image_id(name)) is not None:
        return known
    status, said = docker("pull", "--quiet", name, timeout_s=_PULL_S)
    if status == 0 and (pulled := image_id(name)) is not None:
        return pulled
    raise UserError(
        f"the image {name} is not here and cannot be pulled: {_last(said)}",
        mend="bring it with docker load or docker import, or name another as TUNER_BASE_IMAGE",
    )


def container_words(container: Container) -> list[str]:
    """The options of ``docker run`` for what a container needs from this host, patterns resolved."""
    needs = host_needs(container)
    words = ["--gpus", "all"] if needs.gpus else []
    for device in needs.devices:
        words += ["--device", device]
    for host, inside in needs.mounts:
        words += ["--volume", f"{host}:{inside}:ro"]
    for name, value in needs.env:
        words += ["--env", f"{name}={value}"]
    return [*words, "--shm-size", str(needs.shm)]


class OneRun:
    """One short-lived container: the command that runs it, and its removal whatever happens.

    Args:
        image: The image.
        argv: Program and arguments inside.
        container: What it needs from this host.
        mounts: Further mounts, ``host:inside`` or ``host:inside:ro``.
        workdir: Working folder inside.
        env: Environment variables.
        interactive: Whether its standard input is that of the command.
    """

    def __init__(
        self,
        image: str,
        argv: Sequence[str],
        *,
        container: Container | None = None,
        mounts: Sequence[str] = (),
        workdir: str = "/",
        env: Sequence[tuple[str, str]] = (),
        interactive: bool = False,
    ) -> None:
        self.name = f"tuner-{uuid.uuid4().hex[:12]}"
        words = ["docker", "run", "--rm", "--init", "--name", self.name, "--network", "none"]
        words += ["--user", f"{os.getuid()}:{os.getgid()}", "--workdir", workdir]
        words += ["--interactive"] if interactive else []
        words += container_words(container or Container())
        for mount in mounts:
            words += ["--volume", mount]
        for name, value in env:
            words += ["--env", f"{name}={value}"]
        self.command = [*words, "--entrypoint", argv[0], image, *argv[1:]]

    def run(self, *, timeout_s: float) -> tuple[int, str]:
        """Run it to its end: exit status and all output."""
        try:
            return docker(*self.command[1:], timeout_s=timeout_s, merged=True)
        finally:
            self.remove()

    def remove(self) -> None:
        """Remove it if it is still there, as after an interrupt."""
        docker("rm", "--force", self.name)


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"

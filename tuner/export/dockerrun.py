"""The words of ``docker run`` that start a container as the trial's was started."""

from __future__ import annotations

import csv
import io

from tuner.export.served import Served, by_flag
from tuner.launch.base import ContainerPlan
from tuner.launch.containerspec import HOME, PORT

WORKDIR = "/tmp"  # noqa: S108 - inside the container
EVERYWHERE = ("--host", "0.0.0.0", "--port", str(PORT))  # noqa: S104 - inside the container


def whole_env(served: Served) -> dict[str, str]:
    """The variables that a container gets beyond its image's, without the secrets."""
    return dict(sorted({**HOME, **dict(served.env)}.items()))


def pieces(served: Served, publish: str, *, form: str) -> list[tuple[str, ...]]:
    """The words in pieces that stand on a line each.

    Args:
        served: What is deployed; its secrets are taken from docker's own environment.
        publish: Where the server is reached, as ``--publish`` takes it.
        form: The form that is being written, for an error.

    Raises:
        UserError: When it is no container.
    """
    box = served.box(form)
    options = [
        ("docker", "run", "--rm", "--init"),
        ("--name", served.name),
        ("--publish", publish),
        *_rights(box),
        *_resources(box, served.memory),
        *(("--mount", _mount(here, inside)) for here, inside in box.mounts),
        ("--workdir", WORKDIR),
        ("--no-healthcheck",),
        *(("--env", f"{name}={value}") for name, value in whole_env(served).items()),
        *(("--env", name) for name, _ in served.secrets),
    ]
    server, *flags = by_flag(served.command)
    start = [("--entrypoint", server[0]), (box.image, *server[1:])]
    return [*options, *start, *flags, EVERYWHERE]


def _rights(box: ContainerPlan) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [
        ("--security-opt", "no-new-privileges"),
        ("--cap-drop", "ALL"),
        *(("--cap-add", name) for name in box.capabilities),
    ]
    return [*found, ("--user", box.user)] if box.user else found


def _resources(box: ContainerPlan, memory: int | None) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [("--ipc", "private"), ("--shm-size", str(box.shm))]
    if memory is not None:
        found += [("--memory", str(memory)), ("--memory-swap", str(memory))]
    if box.gpus:
        found.append(("--gpus", "all"))
    return [*found, *(("--device", f"{node}:{node}:rwm") for node in box.devices)]


def _mount(here: str, inside: str) -> str:
    """A read-only bind mount; docker reads the fields as a line of CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(
        ["type=bind", f"source={here}", f"target={inside}", "readonly"]
    )
    return out.getvalue()

"""A compose file that keeps the container of a trial running."""

from __future__ import annotations

import math
from typing import Any

from tuner.export.dockerrun import EVERYWHERE, WORKDIR, whole_env
from tuner.export.served import SERVED_ON, Served
from tuner.export.yamltext import dump
from tuner.launch.base import ContainerPlan
from tuner.launch.containerspec import PORT
from tuner.launch.ports import HOST

NAME = "compose.yaml"


def render(served: Served) -> str:
    """The file's text.

    Raises:
        UserError: When the deployment is no container.
    """
    wanted = [source for _, source in served.secrets]
    asked = "".join(f"{source}=… " for source in wanted)
    head = (
        f"# {served.about}\n"
        f"#   {asked}docker compose up --detach     serves on http://{HOST}:{SERVED_ON}, or on PORT\n"
    )
    return head + dump({"services": {served.name: _service(served, served.box("compose"))}})


def _service(served: Served, box: ContainerPlan) -> dict[str, Any]:
    python, *words = served.command
    found: dict[str, Any] = {
        "image": literal(box.image),
        "entrypoint": [literal(python)],
        "command": [literal(word) for word in (*words, *EVERYWHERE)],
        "environment": {
            **{name: literal(value) for name, value in whole_env(served).items()},
            **{name: f"${{{source}:?}}" for name, source in served.secrets},
        },
        "ports": [f"{HOST}:${{PORT:-{SERVED_ON}}}:{PORT}"],
        "volumes": [
            {"type": "bind", "source": literal(here), "target": literal(inside), "read_only": True}
            for here, inside in box.mounts
        ],
        "working_dir": WORKDIR,
        "init": True,
        "ipc": "private",
        "shm_size": str(box.shm),
        "security_opt": ["no-new-privileges:true"],
        "cap_drop": ["ALL"],
        "healthcheck": {"disable": True},
        "restart": "unless-stopped",
        "stop_grace_period": f"{math.ceil(served.stop_s)}s",
    }
    return {**found, **_asked(served, box)}


def _asked(served: Served, box: ContainerPlan) -> dict[str, Any]:
    """What not every deployment asks for."""
    found: dict[str, Any] = {}
    if box.user:
        found["user"] = box.user
    if box.capabilities:
        found["cap_add"] = list(box.capabilities)
    if box.devices:
        found["devices"] = [f"{node}:{node}:rwm" for node in box.devices]
    if served.memory is not None:
        found["mem_limit"] = found["memswap_limit"] = str(served.memory)
    if box.gpus:
        gpus = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
        found["deploy"] = {"resources": {"reservations": {"devices": [gpus]}}}
    return found


def literal(text: str) -> str:
    """A text as compose takes it without putting variables in."""
    return text.replace("$", "$$")

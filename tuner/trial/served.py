"""From a trial in the ledger to what is deployed of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.build import Engine, host_needs
from tuner.errors import UserError
from tuner.export.served import Served, deployed_env
from tuner.spec import SearchSpace
from tuner.spec.deployment import Deployment
from tuner.store.rows import StudyRow, TrialRow
from tuner.trial.command import server_command
from tuner.trial.environment import environment
from tuner.trial.starting import container_plan, model_path


def engine_of(row: StudyRow, deployment: Deployment) -> Engine:
    """The engine that a deployment was started with.

    Raises:
        UserError: When the study has built none yet.
    """
    found = row.facts.get("engines", {}).get(deployment.engine)
    if found is None:
        raise UserError(f"study {row.name} has built no engine yet, so there is nothing to export")
    return Engine.from_json(found)


def served(
    row: StudyRow,
    space: SearchSpace,
    trial: TrialRow,
    *,
    image: str | None = None,
    started_in: float | None = None,
) -> Served:
    """What is deployed of a trial: what it was started with, without what only helps to look.

    Args:
        row: The study.
        space: Its search space.
        trial: The trial.
        image: The image's name where it is deployed; the engine's own by default.
        started_in: Seconds that the trial's start took; where it is deployed it may take twice that.

    Raises:
        UserError: When a file that the deployment points to is not what it was, or an image is named
            for a process.
    """
    deployment = Deployment.from_json(trial.deployment)
    engine = engine_of(row, deployment)
    model = Path(row.facts["models"][deployment.model])
    box = container_plan(engine, model, deployment)
    if image is not None:
        if box is None:
            raise UserError(
                f"study {row.name} measured processes, so there is no image to name otherwise",
                mend="leave --image out",
            )
        box = replace(box, image=image)
    hardware = row.facts["hardware"]
    deadlines = space.engine.deadlines
    return Served(
        study=row.name,
        trial=trial.number,
        command=server_command(engine.server, model_path(engine, model), deployment),
        env=tuple(_environment(engine, space, deployment).items()),
        secrets=deployment.secrets,
        start_s=max(deadlines.start, 2 * (started_in or 0.0)),
        stop_s=deadlines.stop,
        memory=space.memory.host.of(hardware["memory_total"]),
        container=box,
        model=str(model),
        devices=len(hardware["devices"]),
        resource=engine.container.resource,
        files=tuple(_unchanged(path, digest) for path, digest in deployment.files),
    )


def _environment(engine: Engine, space: SearchSpace, deployment: Deployment) -> dict[str, str]:
    only_containers = {} if engine.image is None else dict(host_needs(engine.container).env)
    added: dict[str, Any] = dict(space.export.env)
    return deployed_env(
        {
            **only_containers,
            **environment(dict(engine.env), deployment),
            **{name: str(value) for name, value in added.items()},
        },
        tuple(space.export.drop_env),
    )


def _unchanged(path: str, digest: str) -> tuple[str, str]:
    """A file that flags or variables point to, with the text that it had in the trial.

    Raises:
        UserError: When it is gone, is another, or is no text.
    """
    file = Path(path)
    try:
        raw = file.read_bytes()
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"a file that the deployment points to cannot be read: {error}", file=file
        ) from error
    if hashlib.sha256(raw).hexdigest() != digest:
        raise UserError(
            "this file has changed since the trial was started with it",
            file=file,
            mend="put its old content back, or measure the new one",
        )
    return path, text

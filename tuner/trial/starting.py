"""From a deployment to all that its launcher needs, as a process or in a container."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tuner.build import Engine, host_needs
from tuner.build.dockercli import OneRun
from tuner.build.process import build_env
from tuner.launch.base import ContainerPlan, Grace, LaunchPlan
from tuner.launch.containerspec import HOME
from tuner.launch.preflight import SCRIPT, Preflight
from tuner.spec.deployment import Deployment
from tuner.store.rows import TrialRow
from tuner.trial.command import server_command
from tuner.trial.context import Study
from tuner.trial.environment import compile_cache, container_environment, whole_environment

MODEL_INSIDE = "/model"
"""Where the served model lies in a container; also the place that the official platform gives it."""

_ASKER = "/tuner-preflight.py"


def launch_plan(study: Study, trial: TrialRow) -> LaunchPlan:
    """How a trial's engine is started.

    Raises:
        UserError: When a secret that the deployment names is not set.
    """
    deployment = Deployment.from_json(trial.deployment)
    engine = study.engines[deployment.engine]
    model = model_path(engine, study.models[deployment.model])
    folder = study.trial_folder(trial.number, trial.attempt)
    return LaunchPlan(
        argv=server_command(engine.server, model, deployment),
        env=launch_environment(study, engine, deployment),
        folder=folder,
        port=study.space.engine.port,
        memory_limit=host_limit(study),
        grace=Grace(term=study.space.engine.deadlines.stop),
        labels={
            "study": study.row.name,
            "trial": str(trial.number),
            "folder": str(folder),
        },
        container=container_plan(engine, study.models[deployment.model], deployment),
    )


def host_limit(study: Study) -> int:
    """Bytes of host memory that an engine of the study may use."""
    return study.space.memory.host.of(study.hardware.memory_total)


def model_path(engine: Engine, folder: Path) -> str:
    """The model's folder as the engine sees it."""
    return str(folder) if engine.image is None else MODEL_INSIDE


def launch_environment(study: Study, engine: Engine, deployment: Deployment) -> dict[str, str]:
    """The environment that an engine is started with; what shows it its lent devices wins."""
    return {**engine_environment(engine, deployment), **study.device_env}


def engine_environment(engine: Engine, deployment: Deployment) -> dict[str, str]:
    """The environment that a deployment's engine gets on any device."""
    recipe = dict(engine.env)
    if engine.image is None:
        return {**compile_cache(engine), **whole_environment(recipe, deployment)}
    return container_environment(recipe, dict(host_needs(engine.container).env), deployment)


def container_plan(engine: Engine, model: Path, deployment: Deployment) -> ContainerPlan | None:
    """What an engine needs as a container; None where it is a process.

    Args:
        engine: The engine.
        model: The model's folder on this machine.
        deployment: What is started.
    """
    if engine.image is None:
        return None
    needs = host_needs(engine.container)
    files = [path for path, _ in deployment.files]
    return ContainerPlan(
        image=engine.image,
        mounts=(*needs.mounts, *_mounts(model, files)),
        devices=needs.devices,
        gpus=needs.gpus,
        shm=needs.shm,
        user=needs.user,
        capabilities=needs.capabilities,
    )


def preflight(study: Study, deployment: Deployment) -> Preflight:
    """A warm process that answers for the deployment's engine and model, wherever the engine is."""
    engine = study.engines[deployment.engine]
    folder = study.models[deployment.model]
    env = launch_environment(study, engine, bare(deployment))
    files = [str(file.path) for file in study.space.files.values()]
    return asker(engine, folder, env=env, files=files, log=study.folder)


def bare(deployment: Deployment) -> Deployment:
    """The deployment without what a trial sets, for a process that is asked about many."""
    return Deployment(
        deployment.recipe, deployment.model, deployment.launch, (), (), deployment.served_name
    )


def asker(
    engine: Engine, model: Path, *, env: dict[str, str], log: Path, files: Iterable[str] = ()
) -> Preflight:
    """A warm process that answers for an engine, in the container of its image where it has one.

    Args:
        engine: The engine.
        model: The model's folder on this machine.
        env: The environment that the engine is started with.
        log: The folder that its log goes to.
        files: Files that flags and variables may name.
    """
    if engine.image is None:
        return Preflight([str(engine.python), str(SCRIPT)], env, str(model), log)
    run = OneRun(
        engine.image,
        [str(engine.python), _ASKER],
        container=engine.container,
        mounts=[
            f"{here}:{inside}:ro"
            for here, inside in (*_mounts(model, files), (str(SCRIPT), _ASKER))
        ],
        # A source tree in the working folder would shadow the engine.
        workdir="/tmp",  # noqa: S108 - inside the container
        env=sorted({**HOME, **env}.items()),
        interactive=True,
    )
    return Preflight(run.command, build_env(), MODEL_INSIDE, log, after=run.remove)


def _mounts(model: Path, files: Iterable[str]) -> list[tuple[str, str]]:
    """The model, and files under the very paths that flags and variables name."""
    return [(str(model), MODEL_INSIDE), *((path, path) for path in files)]

"""Kubernetes manifests of a trial's container: a Deployment, its Service, and the files it points to.

The model comes from a volume claim and secrets from a Secret, both named after the study; they are the
cluster's own, and are referred to and not made. Devices come from the device plugin's resource.
"""

from __future__ import annotations

import math
from typing import Any

from tuner.errors import UserError
from tuner.export.dockerrun import EVERYWHERE, WORKDIR, whole_env
from tuner.export.served import Served
from tuner.export.yamltext import dump
from tuner.launch.base import ContainerPlan
from tuner.launch.containerspec import PORT

NAME = "kubernetes.yaml"
_PERIOD_S = 10
_MOST_FILES = 2**20
"""Bytes that a cluster keeps of a ConfigMap at most."""
_NVIDIA = "nvidia.com/gpu"


def render(served: Served) -> str:
    """The manifests' text.

    Raises:
        UserError: When the deployment is no container, or its image or its devices have no name in a
            cluster.
    """
    box, name = served.box("kubernetes"), served.name
    if box.image.startswith("sha256:"):
        raise UserError(
            "the image has no name that a cluster can pull it by, only its identity here",
            mend="push it to a registry, and name it with --image",
        )
    head = (
        f"# {served.about}\n"
        f"# The cluster must be able to pull the image {box.image}, and must have:\n"
        f"#   the claim {name}-model, a volume with the model's files\n"
    )
    head += "".join(
        f"#   in the secret {name}-secrets the key {source}\n" for _, source in served.secrets
    )
    parts: list[dict[str, Any]] = [_deployment(served, box), _service(name)]
    if sum(len(text.encode()) for _, text in served.files) > _MOST_FILES:
        raise UserError(
            "the files that flags point to are too large to travel with the manifests (1 MiB)",
            mend="put them into the image or the model's folder, and name them there",
        )
    if served.files:
        data = {_key(n): text for n, (_, text) in enumerate(served.files)}
        parts.insert(0, {**_kind("v1", "ConfigMap", f"{name}-files"), "data": data})
    return head + dump(*parts)


def _kind(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _service(name: str) -> dict[str, Any]:
    ports = [{"name": "http", "port": PORT, "targetPort": PORT}]
    return {
        **_kind("v1", "Service", name),
        "spec": {"selector": {"app": name}, "ports": ports},
    }


def _deployment(served: Served, box: ContainerPlan) -> dict[str, Any]:
    name = served.name
    pod = {
        "automountServiceAccountToken": False,
        # Else a service's name becomes variables of the pod, and vLLM reads some: VLLM_PORT.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(served.stop_s),
        "containers": [_container(served, box)],
        "volumes": _volumes(served, box),
    }
    return {
        **_kind("apps/v1", "Deployment", name),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # two would not fit onto the devices
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def _container(served: Served, box: ContainerPlan) -> dict[str, Any]:
    python, *words = served.command
    healthy = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": _PERIOD_S}
    limits = _limits(served, box)
    env: list[dict[str, Any]] = [
        {"name": name, "value": literal(value)} for name, value in whole_env(served).items()
    ]
    env += [
        {
            "name": name,
            "valueFrom": {"secretKeyRef": {"name": f"{served.name}-secrets", "key": source}},
        }
        for name, source in served.secrets
    ]
    return {
        "name": "server",
        "image": box.image,
        "command": [literal(python)],
        "args": [literal(word) for word in (*words, *EVERYWHERE)],
        "workingDir": WORKDIR,
        "env": env,
        "ports": [{"containerPort": PORT}],
        "startupProbe": {**healthy, "failureThreshold": math.ceil(served.start_s / _PERIOD_S)},
        "readinessProbe": healthy,
        **({"resources": {"limits": limits}} if limits else {}),
        "securityContext": _rights(box),
        "volumeMounts": _volume_mounts(served, box),
    }


def _rights(box: ContainerPlan) -> dict[str, Any]:
    added = {"add": list(box.capabilities)} if box.capabilities else {}
    found: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], **added},
    }
    if box.user:
        user, _, group = box.user.partition(":")
        found |= {"runAsUser": int(user), "runAsGroup": int(group)}
    return found


def _limits(served: Served, box: ContainerPlan) -> dict[str, str]:
    found = {} if served.memory is None else {"memory": str(served.memory)}
    if not box.gpus and not box.devices:
        return found
    resource = served.resource or (_NVIDIA if box.gpus else None)
    if resource is None:
        raise UserError(
            "the recipe does not say by which name a cluster offers its devices",
            mend="give it container: resource, as nvidia.com/gpu",
        )
    return {**found, resource: str(max(1, served.devices))}


def _volumes(served: Served, box: ContainerPlan) -> list[dict[str, Any]]:
    shm = {"medium": "Memory", "sizeLimit": str(box.shm)}
    claim = {"claimName": f"{served.name}-model", "readOnly": True}
    found: list[dict[str, Any]] = [
        {"name": "model", "persistentVolumeClaim": claim},
        {"name": "shm", "emptyDir": shm},
    ]
    if served.files:
        found.append({"name": "files", "configMap": {"name": f"{served.name}-files"}})
    found += [
        {"name": f"host-{n}", "hostPath": {"path": here}}
        for n, (here, _) in enumerate(_host_mounts(served, box))
    ]
    return found


def _volume_mounts(served: Served, box: ContainerPlan) -> list[dict[str, Any]]:
    inside = next(inside for here, inside in box.mounts if here == served.model)
    found: list[dict[str, Any]] = [
        {"name": "model", "mountPath": inside, "readOnly": True},
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - inside the container
    ]
    found += [
        {"name": "files", "mountPath": path, "subPath": _key(n), "readOnly": True}
        for n, (path, _) in enumerate(served.files)
    ]
    found += [
        {"name": f"host-{n}", "mountPath": target, "readOnly": True}
        for n, (_, target) in enumerate(_host_mounts(served, box))
    ]
    return found


def _host_mounts(served: Served, box: ContainerPlan) -> list[tuple[str, str]]:
    """What the recipe wants of the host: all but the model and the deployment's files."""
    known = {served.model, *(path for path, _ in served.files)}
    return [(here, inside) for here, inside in box.mounts if here not in known]


def _key(number: int) -> str:
    return f"file-{number}"


def literal(text: str) -> str:
    """A text as a pod takes it without putting variables in."""
    return text.replace("$", "$$")

"""The manifests, held against the cluster's own schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings

from tests.export.samples import CARDS, CONTAINER, CONTAINERS, ENVIRONMENTS, FLAGS, NVIDIA, PROCESS
from tuner.errors import UserError
from tuner.export import kubernetes
from tuner.export.served import Served

CLUSTERS = ("1.28", "1.37")


def documents(served: Served) -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(kubernetes.render(served))}


def pod(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = documents(served)["Deployment"]["spec"]["template"]["spec"]
    return found


def container(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = pod(served)["containers"][0]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", CLUSTERS)
@pytest.mark.parametrize("served", CONTAINERS.values(), ids=CONTAINERS)
def test_it_keeps_to_the_schemas(served: Served, version: str) -> None:
    for one in documents(served).values():
        kubernetes_validate.validate(one, version, strict=True)


@settings(max_examples=60)
@given(words=FLAGS, env=ENVIRONMENTS)
def test_what_is_written_reads_back_the_same(
    words: tuple[str, ...], env: tuple[tuple[str, str], ...]
) -> None:
    found = container(replace(CONTAINER, command=("python3", *words), env=env))
    args = [expanded(word) for word in found["args"]]
    assert found["command"] == ["python3"]
    assert tuple(args[: len(words)]) == words
    read = {one["name"]: expanded(one["value"]) for one in found["env"] if "value" in one}
    assert dict(env).items() <= read.items()


def expanded(text: str) -> str:
    """A text as the kubelet puts variables into it: two dollars are one, nothing else is there to expand."""
    assert "$(" not in text.replace("$$", "")
    return text.replace("$$", "$")


def test_secrets_are_references() -> None:
    (token,) = [one for one in container(CONTAINER)["env"] if one["name"] == "HF_TOKEN"]
    assert token["valueFrom"] == {"secretKeyRef": {"name": "llm-one-secrets", "key": "MY_TOKEN"}}
    assert "key MY_TOKEN" in kubernetes.render(CONTAINER)


def test_devices_come_from_the_plugin_and_files_along() -> None:
    found = container(CARDS)
    assert found["resources"]["limits"] == {"memory": str(3 * 2**30), "iluvatar.com/gpu": "2"}
    assert container(NVIDIA)["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    mounted = {one["mountPath"]: one for one in found["volumeMounts"]}
    assert mounted["/srv/a, b/chat.jinja"]["subPath"] == "file-0"
    assert documents(CARDS)["ConfigMap"]["data"] == {"file-0": "{{ messages }}\nend\n"}
    assert mounted["/model"]["name"] == "model"
    assert {"name": "host-0", "hostPath": {"path": "/usr/src"}} in pod(CARDS)["volumes"]
    assert {one["name"] for one in found["volumeMounts"]} == {
        one["name"] for one in pod(CARDS)["volumes"]
    }


def test_devices_without_a_name_in_a_cluster_are_refused() -> None:
    with pytest.raises(UserError, match="by which name"):
        kubernetes.render(replace(CARDS, resource=None))


def test_what_a_cluster_cannot_take_is_refused() -> None:
    with pytest.raises(UserError, match="too large"):
        kubernetes.render(replace(CARDS, files=((CARDS.files[0][0], "x" * 2**20 + "y"),)))
    box = CARDS.box("kubernetes")
    with pytest.raises(UserError, match="no name"):
        kubernetes.render(replace(CARDS, container=replace(box, image="sha256:0123")))


def test_the_selector_finds_the_pod_and_nothing_of_the_cluster_leaks_in() -> None:
    found = documents(CONTAINER)
    label = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == label
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == label
    assert pod(CONTAINER)["enableServiceLinks"] is False
    probe = container(CONTAINER)["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] >= CONTAINER.start_s


def test_a_process_is_refused() -> None:
    with pytest.raises(UserError, match="measured processes"):
        kubernetes.render(PROCESS)

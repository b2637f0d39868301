from __future__ import annotations

from pathlib import Path

import pytest

from tuner.launch.base import ContainerPlan, LaunchPlan
from tuner.launch.containerspec import MARKER, PORT, ContainerIdentity, create_options
from tuner.launch.docker import DockerLauncher

IDENTITY = ContainerIdentity("boot", "tuner-x", "word", 12345, "/log")


def plan(**container: object) -> LaunchPlan:
    return LaunchPlan(
        argv=("python3", "-m", "server", "--model", "/model"),
        env={"HOME": "/elsewhere", "A": "1"},
        folder=Path("/nowhere"),
        memory_limit=2**31,
        labels={"study": "my-study", "trial": "7"},
        container=ContainerPlan("image:1", **container),  # type: ignore[arg-type]
    )


def options(**container: object) -> dict[str, object]:
    wanted = plan(**container)
    assert wanted.container is not None
    return create_options(wanted, wanted.container, IDENTITY)


def test_the_identity_reads_back() -> None:
    assert ContainerIdentity.from_json(IDENTITY.as_json()) == IDENTITY


def test_the_command_is_the_plans_and_the_port_is_the_containers_own() -> None:
    made = options()
    assert made["entrypoint"] == ["python3"]
    command = made["command"]
    assert isinstance(command, list)
    assert command[:2] == ["-m", "server"]
    assert command[-4:] == ["--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104
    assert made["host"]["port_bindings"] == {PORT: ("127.0.0.1", 12345)}  # type: ignore[index]


def test_the_plans_environment_wins_over_the_defaults() -> None:
    env = options()["environment"]
    assert isinstance(env, dict)
    assert env == {"HOME": "/elsewhere", "USER": "tuner", "LOGNAME": "tuner", "A": "1"}


def test_labels_name_the_study_the_trial_and_the_marker() -> None:
    assert options()["labels"] == {
        "tuner.study": "my-study", "tuner.trial": "7", "tuner.boot": "boot", MARKER: "word",
    }  # fmt: skip


def test_rights_are_few_and_what_is_declared_is_passed_in() -> None:
    host = options(
        mounts=(("/here", "/there"),), devices=("/dev/iluvatar0",), gpus=True, shm=123,
        capabilities=("SYS_NICE",),
    )["host"]  # fmt: skip
    assert isinstance(host, dict)
    assert host["cap_drop"] == ["ALL"]
    assert host["cap_add"] == ["SYS_NICE"]
    assert host["security_opt"] == ["no-new-privileges"]
    assert host["ipc_mode"] == "private"
    assert host["shm_size"] == 123
    assert host["mem_limit"] == host["memswap_limit"] == 2**31
    assert host["devices"] == ["/dev/iluvatar0:/dev/iluvatar0:rwm"]
    assert [m["ReadOnly"] for m in host["mounts"]] == [True]
    assert [(m["Source"], m["Target"]) for m in host["mounts"]] == [("/here", "/there")]
    assert host["device_requests"][0]["Capabilities"] == [["gpu"]]
    assert options()["host"]["device_requests"] is None  # type: ignore[index]


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"study": "a-b", "trial": "3"}, r"tuner-a-b-3-[0-9a-f]{8}"),
        ({}, r"tuner-[0-9a-f]{8}"),
        ({"study": "ü /x"}, r"tuner----x-[0-9a-f]{8}"),
    ],
)
def test_a_container_is_named_after_its_trial(
    tmp_path: Path, labels: dict[str, str], name: str
) -> None:
    wanted = LaunchPlan(("x",), {}, tmp_path, labels=labels)
    found = DockerLauncher().prepare(wanted)
    assert __import__("re").fullmatch(name, found["name"])

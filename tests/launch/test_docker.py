"""What the contract does not ask: the daemon that hangs, the rights inside, the port that is taken."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.launchers import SUBJECTS, wait
from tests.fakes import containers
from tuner.errors import DockerLost, LaunchFailed, UserError
from tuner.launch.base import LaunchPlan
from tuner.launch.container import ContainerLaunch
from tuner.launch.containerspec import MARKER
from tuner.launch.docker import DockerLauncher
from tuner.launch.readiness import Ended

DOCKER = SUBJECTS["docker"]
WITH_DAEMON = [
    pytest.mark.docker,
    pytest.mark.xdist_group("engines"),
    pytest.mark.usefixtures("none_left"),
]


@pytest.fixture
def none_left(tmp_path: Path) -> Iterator[None]:
    with containers.none_left(tmp_path):
        yield


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[containers.Proxy]:
    """The way to the daemon goes through a socket that can be made to hang."""
    made = containers.Proxy(tmp_path)
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", made.address)
        yield made
    made.close()


@pytest.fixture
def silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A daemon that takes connections and never answers."""
    made = containers.Proxy(tmp_path, forward=False)
    monkeypatch.setenv("DOCKER_HOST", made.address)
    yield
    made.close()


def plan(folder: Path, *switches: str, **more: Any) -> LaunchPlan:
    return DOCKER.plan(folder / "trial", *switches, **more)


def start(launcher: DockerLauncher, wanted: LaunchPlan) -> ContainerLaunch:
    return launcher.start(wanted, launcher.prepare(wanted))


def inspected(launch: ContainerLaunch) -> dict[str, Any]:
    container = launch.identity()["container"]
    said = subprocess.run(["docker", "inspect", container], capture_output=True, check=True)
    found: dict[str, Any] = json.loads(said.stdout)[0]
    return found


def inside(launch: ContainerLaunch, *words: str) -> str:
    done = subprocess.run(
        ["docker", "exec", launch.identity()["container"], *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


# --- no daemon, or one that hangs ----------------------------------------------------------------


def bare(folder: Path) -> LaunchPlan:
    folder.mkdir(exist_ok=True)
    return LaunchPlan(("python3",), {}, folder)


@pytest.mark.usefixtures("silence")
def test_a_daemon_that_never_answers_is_said_in_time(tmp_path: Path) -> None:
    launcher = DockerLauncher(timeout=0.5)
    began = time.monotonic()
    with pytest.raises(DockerLost, match=r"no Docker daemon answers|gave no answer within 0\.5 s"):
        start(launcher, replace(bare(tmp_path / "t"), container=_any_container()))
    assert time.monotonic() - began < 5


@pytest.mark.usefixtures("silence")
def test_what_cannot_be_asked_after_is_not_proven_gone(tmp_path: Path) -> None:
    launcher = DockerLauncher(timeout=0.5)
    recorded = launcher.prepare(bare(tmp_path / "t"))
    began = time.monotonic()
    launch = launcher.recover(recorded)
    proof = launch.stop(at_once=True)
    assert not proof.gone
    assert "as far as is known" in proof.problems[0]
    assert recorded["name"] in proof.problems[0]
    assert time.monotonic() - began < 5


@pytest.mark.usefixtures("silence")
def test_after_a_reboot_nothing_runs_whether_docker_answers_or_not(tmp_path: Path) -> None:
    launcher = DockerLauncher(timeout=0.5)
    recorded = {**launcher.prepare(bare(tmp_path / "t")), "boot": "another"}
    assert launcher.recover(recorded).stop(at_once=True).gone


def test_no_daemon_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(DockerLost, match="no Docker daemon answers"):
        start(DockerLauncher(), replace(bare(tmp_path / "t"), container=_any_container()))


def test_a_daemon_on_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.1.2.3:2375")
    with pytest.raises(UserError, match="not on this machine"):
        start(DockerLauncher(), replace(bare(tmp_path / "t"), container=_any_container()))


def test_a_plan_without_an_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="without an image"):
        start(DockerLauncher(), bare(tmp_path / "t"))


def _any_container() -> Any:
    from tuner.launch.base import ContainerPlan

    return ContainerPlan("image")


class TestHanging:
    pytestmark = WITH_DAEMON

    def test_a_daemon_that_hangs_under_a_live_engine_does_not_hang_the_stop(
        self, tmp_path: Path, proxy: containers.Proxy
    ) -> None:
        launcher = DockerLauncher(timeout=1.0)
        launch = start(launcher, plan(tmp_path, "ignore-term"))
        assert wait(launch).ended is Ended.READY
        proxy.hang()
        began = time.monotonic()
        proof = launch.stop(at_once=False)
        assert time.monotonic() - began < 20
        assert (
            not launch.pids()
        )  # its processes are known to the kernel, and were ended all the same
        assert not proof.gone
        assert "gave no answer within 1 s" in proof.problems[0]
        proxy.heal()
        again = launcher.recover(launch.identity())
        assert again.stop(at_once=True).gone


class TestContainer:
    pytestmark = WITH_DAEMON

    def test_it_has_few_rights_and_is_reached_on_the_loopback_only(self, tmp_path: Path) -> None:
        model = tmp_path / "model"
        model.mkdir()
        (model / "config.json").write_text("{}")
        wanted = plan(tmp_path, memory_limit=2**28)
        assert wanted.container is not None
        needs = replace(
            wanted.container, mounts=((str(model), "/model"),), shm=5 * 2**20, user="12345:12345",
        )  # fmt: skip
        launch = start(DockerLauncher(), replace(wanted, container=needs))
        assert wait(launch).ended is Ended.READY
        status = dict(
            line.split(":\t", 1) for line in inside(launch, "cat", "/proc/1/status").splitlines()
        )
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        assert status["Uid"].split() == ["12345"] * 4
        assert "Read-only" in inside(launch, "touch", "/model/x")
        assert "5.0M" in inside(launch, "df", "-h", "/dev/shm")
        assert "No such file" in inside(launch, "ls", "/var/run/docker.sock")
        known = inspected(launch)
        assert known["HostConfig"]["Memory"] == known["HostConfig"]["MemorySwap"] == 2**28
        bindings = known["NetworkSettings"]["Ports"]["8000/tcp"]
        assert {b["HostIp"] for b in bindings} == {"127.0.0.1"}
        assert launch.stop(at_once=False).gone

    def test_a_port_that_was_taken_meanwhile_is_given_up_for_another(self, tmp_path: Path) -> None:
        launcher, wanted = DockerLauncher(), plan(tmp_path)
        intent = launcher.prepare(wanted)
        with socket.create_server(("127.0.0.1", intent["port"])):
            launch = launcher.start(wanted, intent)
            assert wait(launch).ended is Ended.READY
        assert launch.identity()["port"] != intent["port"]
        assert launch.stop(at_once=False).gone

    def test_a_port_that_was_asked_for_and_is_taken_is_refused(self, tmp_path: Path) -> None:
        launcher = DockerLauncher()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        wanted = replace(plan(tmp_path), port=port)
        intent = launcher.prepare(wanted)
        with (
            socket.create_server(("127.0.0.1", port)),
            pytest.raises(LaunchFailed, match="address already in use"),
        ):
            launcher.start(wanted, intent)

    def test_an_image_that_is_not_there_is_said(self, tmp_path: Path) -> None:
        wanted = replace(plan(tmp_path), container=_any_container())
        with pytest.raises(LaunchFailed, match=r"(?i)no such image"):
            start(DockerLauncher(), wanted)

    def test_a_program_that_is_not_there_is_said_and_leaves_nothing(self, tmp_path: Path) -> None:
        wanted = replace(plan(tmp_path), argv=("/no/such/program",))
        launch = start(DockerLauncher(), wanted)  # docker's own first process looks for it
        waited = wait(launch)
        assert waited.ended is Ended.EXITED
        assert launch.stop(at_once=True).gone
        assert "No such file or directory" in launch.log.read_text()

    def test_a_worker_that_is_killed_for_memory_takes_the_engine_with_it(
        self, tmp_path: Path
    ) -> None:
        launch = start(
            DockerLauncher(), plan(tmp_path, FAKE_BALLAST_MIB="400", memory_limit=250 * 2**20)
        )
        deadline = time.monotonic() + 20
        while (gone := launch.exit()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert (gone.signal, gone.over_limit, gone.asked) == (signal.SIGKILL, True, False)
        assert not launch.pids()
        assert launch.stop(at_once=True).gone

    def test_processor_time_moves_while_it_works(self, tmp_path: Path) -> None:
        launch = start(DockerLauncher(), plan(tmp_path, "spin-start"))
        time.sleep(0.5)
        first = launch.cpu_seconds()
        time.sleep(1.0)
        assert launch.cpu_seconds() - first > 0.3
        # Where the kernel does not show the processes, the daemon's own count serves.
        unseen = ContainerLaunch(
            replace(launch._identity, pid=0, log=str(tmp_path / "other")), grace=launch._grace
        )
        unseen.members = lambda: ()  # type: ignore[method-assign]
        assert unseen.cpu_seconds() > 0.3
        assert unseen.exit() is None
        assert launch.stop(at_once=True).gone
        unseen._looked = 0.0
        assert unseen.exit() is not None
        assert unseen.stop(at_once=True).gone


_DYING_TUNER = """
import json, os, sys
from pathlib import Path
from tests.launch.test_docker import plan, wait
from tuner.launch.docker import DockerLauncher
launcher, wanted = DockerLauncher(), plan(Path(sys.argv[1]))
intent = launcher.prepare(wanted)
Path(sys.argv[1], "identity.json").write_text(json.dumps(intent))
launch = launcher.start(wanted, intent)
wait(launch)
os.kill(os.getpid(), 9)
"""


class TestRecovery:
    pytestmark = WITH_DAEMON

    def test_only_the_recorded_container_is_ended_and_its_whole_log_is_kept(
        self, tmp_path: Path
    ) -> None:
        other = start(DockerLauncher(), plan(tmp_path / "other"))
        done = subprocess.run([sys.executable, "-c", _DYING_TUNER, str(tmp_path)], check=False)
        assert done.returncode == -signal.SIGKILL
        recorded = json.loads((tmp_path / "identity.json").read_text())
        assert not recorded["container"]  # it was started, and that was never recorded
        launch = DockerLauncher().recover(recorded)
        assert len(launch.pids()) == 3
        httpx.get(f"{launch.base_url}/health")  # it still serves
        assert launch.stop(at_once=False).gone
        log = launch.log.read_text()
        assert log.count("non-default args") == 1  # what the dead one copied is not copied twice
        assert "shutdown triggered" in log  # what came after it died is there too
        assert wait(other).ended is Ended.READY
        assert other.stop(at_once=False).gone

    def test_a_container_that_was_only_created_is_removed(self, tmp_path: Path) -> None:
        launcher = DockerLauncher()
        intent = launcher.prepare(plan(tmp_path))
        subprocess.run(
            ["docker", "create", "--label", f"{MARKER}={intent['marker']}",
             "--label", f"{containers.FOLDER}={tmp_path}", "debian:bookworm-slim", "true"],
            check=True, capture_output=True,
        )  # fmt: skip
        launch = launcher.recover(intent)
        assert launch.pids() == ()
        assert launch.stop(at_once=False).gone

    def test_a_container_that_somebody_removed_is_gone(self, tmp_path: Path) -> None:
        launch = start(DockerLauncher(), plan(tmp_path))
        assert wait(launch).ended is Ended.READY
        container = launch.identity()["container"]
        subprocess.run(["docker", "rm", "--force", container], check=True, capture_output=True)
        found = launch.exit()
        assert found is not None
        assert not found.asked
        assert launch.stop(at_once=False).gone

from __future__ import annotations

from pathlib import Path

from tuner.build import host_needs
from tuner.build.recipe import Container


def _host(root: Path, *files: str) -> Path:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def test_patterns_become_the_devices_that_are_there(tmp_path: Path) -> None:
    host = _host(tmp_path, "dev/iluvatar0", "dev/iluvatar1", "dev/null", "usr/src/x")
    needs = host_needs(
        Container(
            devices=("/dev/iluvatar*", "/dev/iluvatar0", "/dev/nothere*"),
            mounts=("/usr/src:/usr/src", "/lib/modules:/lib/modules"),
            shm="2GiB",
            env={"B": "2", "A": "1"},
        ),
        root=host,
    )
    assert needs.devices == ("/dev/iluvatar0", "/dev/iluvatar1")
    assert needs.mounts == (("/usr/src", "/usr/src"),)
    assert needs.shm == 2 * 2**30
    assert needs.env == (("A", "1"), ("B", "2"))


def test_nvidia_devices_are_asked_for_where_there_are_any(tmp_path: Path) -> None:
    auto = Container(gpus="auto")
    assert not host_needs(auto, root=tmp_path).gpus
    assert host_needs(Container(gpus="all"), root=tmp_path).gpus
    assert host_needs(auto, root=_host(tmp_path, "dev/nvidiactl")).gpus
    assert not host_needs(Container(), root=tmp_path).gpus

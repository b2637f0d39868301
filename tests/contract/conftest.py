"""The launcher that a test of the contract is about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.launchers import Subject, subjects
from tests.fakes import containers


@pytest.fixture(params=subjects("process", "docker"))
def subject(request: pytest.FixtureRequest) -> Subject:
    """Every launcher in turn."""
    found: Subject = request.param
    return found


@pytest.fixture(params=subjects("process", "process-uncaged", "docker"))
def limited(request: pytest.FixtureRequest) -> Subject:
    """Every launcher in turn, and every way in which it keeps a memory limit."""
    found: Subject = request.param
    return found


@pytest.fixture(autouse=True)
def no_container_left_behind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Fail a test that leaves a container, and remove it."""
    if request.node.get_closest_marker("docker") is None:
        yield
        return
    with containers.none_left(tmp_path):
        yield

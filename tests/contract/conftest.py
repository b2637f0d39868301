"""The launcher that a test of the contract is about."""

from __future__ import annotations

import pytest

from tests.contract.launchers import Subject, subjects


@pytest.fixture(params=subjects("process"))
def subject(request: pytest.FixtureRequest) -> Subject:
    """Every launcher in turn."""
    found: Subject = request.param
    return found


@pytest.fixture(params=subjects("process", "process-uncaged"))
def limited(request: pytest.FixtureRequest) -> Subject:
    """Every launcher in turn, and every way in which it keeps a memory limit."""
    found: Subject = request.param
    return found

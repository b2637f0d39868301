"""The tuner, the engine's leader and a worker, each killed at a random moment: nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kills.run import HEAD, demonstrate, line, summary

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900), pytest.mark.xdist_group("engines")]

RUNS = 3


@pytest.fixture
def own_folders() -> None:
    """The user's cache is wanted here: it holds the built engine."""


def test_whoever_is_killed_nothing_is_left(tmp_path: Path) -> None:
    kills = list(demonstrate(tmp_path, RUNS))
    print(HEAD)
    for number, kill in enumerate(kills, 1):
        print(line(number, kill))
    print(summary(kills))
    assert not [kill for kill in kills if kill.left], summary(kills)
    assert {kill.victim for kill in kills} != {"nobody"}

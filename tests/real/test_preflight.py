"""The real engine's own word on many points of the shipped search space, before any is started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPACE = Path("search_spaces/local_cpu.yaml")

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600), pytest.mark.xdist_group("engines")]


@pytest.fixture
def own_folders() -> None:
    """The user's cache is wanted here: it holds the built engine."""


def test_points_that_it_would_refuse_are_named_before_they_are_started() -> None:
    command = [sys.executable, "-m", "tuner", "validate", str(SPACE), "--ask", "60", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["engine"]
    assert said["unanswered"] == 0, said["problem"]
    assert said["accepted"] > 0
    assert sum(one["count"] for one in said["refused"]) == said["asked"] - said["accepted"] > 0
    (one,) = said["refused"]
    assert "max_num_batched_tokens" in one["words"]
    assert "is smaller than max_model_len" in one["words"]
    assert one["example"]["chunked_prefill"] is False

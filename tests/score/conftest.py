"""Records to score, made up or of the platform's runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.load.record import ErrorClass, Record

DATA = Path(__file__).parents[1] / "data" / "score"

MakeRecord = Callable[..., Record]


@pytest.fixture
def make_record() -> MakeRecord:
    """A record of a success: sent at ``at``, first token after ``ttft``, then a token each ``step``."""

    def make(
        at: float = 0.0,
        *,
        ttft: float = 1.0,
        step: float = 0.1,
        prompt: int | None = 1000,
        cached: int | None = 200,
        output: int = 11,
        **more: Any,
    ) -> Record:
        times = tuple(at + ttft + step * i for i in range(output))
        fields: dict[str, Any] = {
            "workload": "w",
            "session": 0,
            "turn": 0,
            "scheduled": at,
            "sent": at,
            "first_token": times[0],
            "end": times[-1],
            "chunk_times": times,
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "output_tokens": output,
            "finish_reason": "stop",
        }
        return Record(**fields | more)

    return make


@pytest.fixture
def make_failure() -> MakeRecord:
    """A record of a failure that took ``seconds``; never sent when its class says so."""

    def make(error: ErrorClass, at: float = 0.0, seconds: float = 0.0) -> Record:
        unsent = error is ErrorClass.NOT_SENT
        return Record(
            workload="w",
            session=0,
            turn=0,
            scheduled=at,
            sent=None if unsent else at,
            first_token=None,
            end=None if unsent else at + seconds,
            error=error,
        )

    return make


@pytest.fixture(scope="session")
def platform_runs() -> dict[str, dict[str, Any]]:
    """What the platform logged of its runs, by run."""
    runs: dict[str, dict[str, Any]] = json.loads((DATA / "platform_runs.json").read_text())["runs"]
    return runs


@pytest.fixture(scope="session")
def worklog() -> dict[str, Any]:
    """Tables of a team's published worklog."""
    tables: dict[str, Any] = json.loads((DATA / "worklog_rows.json").read_text())
    return tables


@pytest.fixture(scope="session")
def platform_requests() -> dict[str, list[Record]]:
    """The 881 requests of the platform's runs 655 and 694, one after another, without TTFT."""
    runs: dict[str, list[Record]] = {}
    with (DATA / "platform_requests.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            records = runs.setdefault(row["run"], [])
            records.append(_platform_record(row))
    return runs


def _platform_record(row: dict[str, str]) -> Record:
    classes = {
        "ok": None,
        "not_started": ErrorClass.NOT_SENT,
        "connection": ErrorClass.CONNECT,
        "stream_aborted": ErrorClass.STREAM_ABORTED,
    }
    error = classes.get(row["outcome"], ErrorClass.HTTP_4XX)
    return Record(
        workload="replay",
        session=int(row["index"]),
        turn=0,
        scheduled=0.0,
        sent=None if error is ErrorClass.NOT_SENT else 0.0,
        first_token=None,
        end=float(row["total_ms"]) / 1000 if row["total_ms"] else None,
        prompt_tokens=int(row["prompt_tokens"]) if row["prompt_tokens"] else None,
        output_tokens=int(row["output_tokens"]) if row["output_tokens"] else None,
        finish_reason=row["finish_reason"] or None,
        error=error,
    )

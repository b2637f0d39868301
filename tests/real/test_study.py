"""A whole study on the real engine: killed in the middle, resumed, decided, exported, served by hand."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tuner.errors import LedgerCorrupt, StudyNotFound
from tuner.export import computility
from tuner.launch import ports
from tuner.store.ledger import Ledger
from tuner.store.stages import Stage

SPACE = Path(__file__).parent.parent / "data" / "spaces" / "real_short.yaml"

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900), pytest.mark.xdist_group("engines")]


@pytest.fixture
def own_folders() -> None:
    """The user's cache is wanted here: it holds the built engine."""


def tuner(state: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "tuner", "--state", str(state), *words]


def told(state: Path, *words: str) -> Any:
    done = subprocess.run(
        tuner(state, *words, "--json"), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def vllm_processes(folder: Path) -> set[int]:
    """Processes of the real engine that live in a folder: whoever else runs one is left alone."""
    found = set()
    for process in psutil.process_iter(["name", "cmdline", "cwd"]):
        words = " ".join(process.info["cmdline"] or [process.info["name"] or ""])
        real = "VLLM::" in words or "vllm.entrypoints" in words
        if real and (process.info["cwd"] or "").startswith(f"{folder}/"):
            found.add(process.pid)
    return found


def wait_until_ready(state: Path, study: str, number: int, running: subprocess.Popen[str]) -> None:
    """Wait until the engine of a trial of the running study is up."""
    while running.poll() is None:
        time.sleep(0.1)
        with (
            contextlib.suppress(StudyNotFound, LedgerCorrupt),
            Ledger(state, write=False) as ledger,
        ):
            steps = ledger.transitions(ledger.study(study).id, number)
            if any(step.stage is Stage.READY for step in steps):
                return
    pytest.fail(f"the study ended before trial {number} was ready")


@contextmanager
def served(exported: computility.RunFile, folder: Path) -> Iterator[str]:
    """The exported command, started by hand."""
    port = ports.free_port()
    with (folder / "by-hand.log").open("wb") as log:
        server = subprocess.Popen(
            [*exported.command, "--host", "127.0.0.1", "--port", str(port)],
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **dict(exported.env)},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            children = psutil.Process(server.pid).children(recursive=True)
            server.send_signal(signal.SIGTERM)
            server.wait(30)
            _, alive = psutil.wait_procs(children, timeout=15)
            assert not alive


def answer(url: str) -> dict[str, Any]:
    """A completion, asked until it comes."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            body = {"model": "llm", "prompt": "Hello", "max_tokens": 4}
            found = httpx.post(f"{url}/v1/completions", json=body, timeout=60)
        except httpx.TransportError:
            time.sleep(0.5)
            continue
        assert found.status_code == 200
        data: dict[str, Any] = found.json()
        return data
    pytest.fail("the exported command never served")


def the_fastest_wins(state: Path, trials: list[dict[str, Any]]) -> None:
    """The variant that measured fastest was measured again, and wins where that is beyond the noise."""
    searched = [t for t in trials if t["origin"] != "repeat" and t["feasible"]]
    assert {t["params"]["moe"] for t in searched} == {"loop", "native", "compiled"}
    fastest = max((t for t in searched if t["origin"] != "simpler"), key=lambda t: t["score"])
    stand_in = [t["trial"] for t in searched if t["origin"] == "simpler"]
    decision = told(state, "status", "real-short")[0]["decision"]
    (compared,) = decision["comparisons"]
    assert compared["number"] in {fastest["trial"], *stand_in}
    assert decision["clear"] == (compared["low"] is not None and compared["low"] > 1)
    assert decision["winner"] == (compared["number"] if decision["clear"] else 0)


def test_a_study_is_killed_resumed_decided_exported_and_served(tmp_path: Path) -> None:
    state = tmp_path / "state"
    log = (tmp_path / "run.log").open("w")
    with log:
        running = subprocess.Popen(
            tuner(state, "run", "--foreground", str(SPACE)),
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            text=True,
        )
        wait_until_ready(state, "real-short", 0, running)
        running.kill()
        running.wait()
        assert vllm_processes(tmp_path)  # it is an orphan now
        done = subprocess.run(
            tuner(state, "resume", "--foreground", "real-short"),
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            check=False,
        )
    assert done.returncode == 0, (tmp_path / "run.log").read_text()
    assert not vllm_processes(tmp_path)

    trials = told(state, "trials", "real-short")
    assert [t["stage"] for t in trials] == ["told"] * len(trials)
    assert [t["trial"] for t in trials] == list(range(len(trials)))
    by_point = {
        json.dumps(t["params"], sort_keys=True): t for t in trials if t["origin"] != "repeat"
    }
    assert len(by_point) == len(
        [t for t in trials if t["origin"] != "repeat"]
    )  # no point ran twice
    assert trials[0]["attempt"] == 2  # it was interrupted once
    assert trials[0]["verdict"] == "healthy"
    assert trials[1]["verdict"] in {"kv_space_does_not_fit", "host_oom"}
    assert trials[2]["verdict"] == "flags_rejected"
    assert trials[3]["verdict"] == "healthy"
    assert trials[3]["feasible"]
    the_fastest_wins(state, trials)

    exported = computility.parse((tmp_path / "export" / computility.NAME).read_bytes())
    with served(exported, tmp_path) as url:
        found = answer(url)
    assert found["usage"]["completion_tokens"] == 4
    report = (state / "studies" / "real-short" / "report.md").read_text()
    assert "## Every trial" in report
    assert not vllm_processes(tmp_path)

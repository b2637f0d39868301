"""Measures cells on the real engine, one run after the other; a run that is there is not made again."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.fidelity_cpu.setup import Cell, Subject, plans, schedule
from tuner.files import write_atomic
from tuner.launch.base import LaunchPlan
from tuner.launch.process import ProcessLauncher
from tuner.launch.readiness import Ended, Patience, await_ready
from tuner.load.endpoint import Endpoint
from tuner.load.record import Record
from tuner.load.run import LoadResult, run_load
from tuner.load.salt import salt_of
from tuner.load.store import write_records
from tuner.score.measure import measure
from tuner.score.official import weighted

START_S = 180.0
INSIDE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
TRIES = 2


class RunFailed(Exception):
    """Raised when a run came to nothing; it is tried once more."""


def measure_all(subject: Subject, most: int | None = None) -> None:
    """Make every run that is not there yet, or the first few of them."""
    todo = [(c, r) for c, r in schedule() if not _result(subject, c, r).exists()][:most]
    for number, (cell, repeat) in enumerate(todo, 1):
        found = _tried(subject, cell, repeat)
        write_atomic(_result(subject, cell, repeat), json.dumps(found, indent=1))
        shown = found["value"] if found["value"] is not None else found["failed"]
        print(f"{number}/{len(todo)} {cell.name} run {repeat}: {shown}", flush=True)


def profile(subject: Subject, cell: Cell) -> Path:
    """One run of a cell whose engine logs every step; the folder holds its log and records."""
    folder = subject.out / "steps" / cell.name
    if not (folder / "result.json").exists():
        found = _run(subject, cell, folder, ("steps",), "--enable-logging-iteration-details")
        write_atomic(folder / "result.json", json.dumps(found, indent=1))
    return folder


def inside(subject: Subject, script: str, *arguments: str, text: str = "") -> str:
    """The output of a script that runs in the engine's environment."""
    path = Path(__file__).parent / "inside" / script
    done = subprocess.run(
        [str(subject.python), str(path), *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **INSIDE},
    )
    if done.returncode:
        raise RunFailed(f"{script} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _result(subject: Subject, cell: Cell, repeat: int) -> Path:
    return subject.out / "runs" / f"{cell.name}-{repeat}" / "result.json"


def _tried(subject: Subject, cell: Cell, repeat: int) -> dict[str, Any]:
    for last in range(TRIES):
        folder = _result(subject, cell, repeat).parent
        try:
            return _run(subject, cell, folder, ("run", repeat))
        except RunFailed as error:
            if last == TRIES - 1:
                return {"cell": cell.name, "repeat": repeat, "value": None, "failed": str(error)}
    raise AssertionError("there is a last try")


def _run(
    subject: Subject, cell: Cell, folder: Path, salt: tuple[object, ...], *extra: str
) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    before = os.getloadavg()[0]
    launcher = ProcessLauncher()
    plan = LaunchPlan(subject.command(cell, *extra), subject.environment(cell), folder)
    launch = launcher.start(plan, launcher.prepare(plan))
    ready = False
    try:
        waited = await_ready(launch, model="llm", patience=lambda: Patience(total=START_S))
        if waited.ended is not Ended.READY:
            raise RunFailed(f"the engine was not ready: {waited.ended} {waited.detail}")
        ready = True
        endpoint = Endpoint("llm", port=int(launch.base_url.rsplit(":", 1)[1]))
        warmup, load = plans()
        run_load(warmup, endpoint, salt=salt_of("warm", *salt))
        mark = launch.log.stat().st_size
        # Every run of a round asks the same, so that cells differ in nothing but themselves.
        done = run_load(load, endpoint, salt=salt_of("load", *salt))
    finally:
        proof = launch.stop(at_once=not ready)
    if not proof.gone:
        raise SystemExit(f"the engine left something behind: {', '.join(proof.problems)}")
    write_records(folder / "records.jsonl", done.records)
    return {
        "cell": cell.name,
        "tp": cell.tp,
        "mns": cell.mns,
        "value": _value(done),
        "wall_s": done.wall_s,
        "start_s": waited.seconds,
        "log_from": mark,
        "load_before": before,
        "at": time.time(),
        **_phases(done.records),
    }


def _value(done: LoadResult) -> float:
    bad = [record for record in done.records if not record.ok]
    if bad:
        raise RunFailed(
            f"{len(bad)} requests failed, the first with {bad[0].error}: {bad[0].detail}"
        )
    value = weighted(measure(done.records, wall_s=done.wall_s))
    if value is None:
        raise RunFailed("the load has no score")
    return value


def _phases(records: tuple[Record, ...]) -> dict[str, float]:
    """Mean seconds to the first token and between tokens, and the cached tokens."""
    return phases(records) | {"cached_tokens": float(sum(r.cached_tokens or 0 for r in records))}


def phases(records: tuple[Record, ...]) -> dict[str, float]:
    """Mean seconds to the first token and between tokens of the answer."""
    first = [
        r.first_token - r.sent for r in records if r.first_token is not None and r.sent is not None
    ]
    between = [
        (r.end - r.first_token) / (r.output_tokens - 1)
        for r in records
        if r.end is not None
        and r.first_token is not None
        and (r.output_tokens or 0) > 1
        and r.output_tokens
    ]
    return {"ttft_s": sum(first) / len(first), "tpot_s": sum(between) / len(between)}

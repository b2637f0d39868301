"""What ``tuner score`` takes for a million requests: seconds and megabytes.

Usage: python benchmarks/score_file/measure.py [--requests 1000000] [--chunks 16]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = "import typer; from tuner.cli.score import score; typer.run(score)"


def write(path: Path, requests: int, chunks: int) -> None:
    """A load of conversations of four turns, one request each 50 ms, 1 % refused."""
    generator = random.Random(1)
    with path.open("w", encoding="utf-8") as out:
        for index in range(requests):
            out.write(json.dumps(request(generator, index, chunks)) + "\n")


def request(generator: random.Random, index: int, chunks: int) -> dict[str, object]:
    """One record, as the load client writes it."""
    due = round(0.05 * index, 7)
    record: dict[str, object] = {
        "workload": "w",
        "session": index // 4,
        "turn": index % 4,
        "scheduled": due,
        "sent": due + 0.0001,
    }
    if generator.random() < 0.01:
        return record | {"first_token": None, "end": due + 0.1, "error": "http_4xx", "status": 400}
    first = due + generator.expovariate(1.0)
    times = [round(first + 0.05 * k + 0.01 * generator.random(), 7) for k in range(chunks)]
    return record | {
        "first_token": times[0],
        "end": times[-1],
        "chunk_times": times,
        "prompt_tokens": generator.randint(100, 9000),
        "cached_tokens": generator.randint(0, 100),
        "output_tokens": chunks + generator.randint(0, 40),
        "finish_reason": "stop",
        "status": 200,
        "answer_digest": f"{generator.getrandbits(256):064x}",
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--chunks", type=int, default=16)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        write(path, arguments.requests, arguments.chunks)
        start = time.perf_counter()
        argv = [sys.executable, "-c", COMMAND, str(path), "--json"]
        done = subprocess.run(argv, check=True, capture_output=True)
        seconds = time.perf_counter() - start
        found = json.loads(done.stdout)["loads"]["w"]
        size = path.stat().st_size
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    assert found["population"]["planned"] == arguments.requests
    print(
        f"{arguments.requests:,} requests of {arguments.chunks} chunks, {size / 2**20:,.0f} MiB: "
        f"{seconds:.1f} s, {peak:.0f} MiB at most"
    )


if __name__ == "__main__":
    main()

r"""How exact and how light the load client is, beside other clients in the same run.

A mock server whose emission times are known (``tests/fakes/mock_openai.py``) streams to 64 requests
at a time. Each client runs in a process of its own, one after another in each round, and the order
turns from round to round. CPU is user plus system time: of guidellm all its processes, of the others
what they spend after their imports. Each client runs with few and with many chunks a request, and
the difference of the two gives the CPU of a chunk without what the client spends on its start. The
errors are those of ``ours`` and ``httpx``, whose stamps can be laid beside the server's: TTFT is the
first chunk's stamp less that of the sending, which is taken just before the bytes go to the socket,
so its error is what lies between the emission of the first chunk and its stamp.

    python benchmarks/load_client/compare.py --vllm-python ENGINE/bin/python \
        --guidellm VENV/bin/guidellm --tokenizer MODEL_FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
_VLLM = """
import argparse, pathlib, time
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
start = time.process_time()
main(parser.parse_args())
pathlib.Path("cpu").write_text(str(time.process_time() - start))
"""


@dataclass(frozen=True)
class Load:
    """What one run sends."""

    requests: int
    streams: int
    chunks: int


@dataclass
class Seen:
    """What one client did: a figure for each run."""

    cpu_ms: list[float] = field(default_factory=list)  # a thousand chunks
    ttft_p99: list[float] = field(default_factory=list)
    itl_p99: list[float] = field(default_factory=list)
    late_p50: list[float] = field(default_factory=list)
    late_p99: list[float] = field(default_factory=list)


Argv = Callable[[int, Load], list[str]]


@contextmanager
def mock(ttft: float, itl: float, align: float) -> Iterator[int]:
    """A mock server; its port."""
    argv = [sys.executable, str(ROOT / "tests/fakes/mock_openai.py")]
    argv += ["--ttft", str(ttft), "--itl", str(itl), "--align", str(align)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def served(port: int) -> list[dict[str, Any]]:
    """The server's own log."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/mock/log", timeout=60) as reply:
        found: list[dict[str, Any]] = json.load(reply)["requests"]
    return found


def cpu_of(argv: list[str], output: Path) -> float:
    """CPU seconds of a command and its children, or what it wrote of itself; its output goes to a file."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    with output.open("wb") as out, output.with_suffix(".err").open("wb") as err:
        process = subprocess.Popen(argv, stdout=out, stderr=err, env=environment, cwd=output.parent)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = output.with_suffix(".err").read_text(errors="replace")[-2000:]
        raise SystemExit(f"{argv[:4]} failed:\n{tail}")
    if (own_account := output.with_name("cpu")).exists():
        return float(own_account.read_text())
    return usage.ru_utime + usage.ru_stime


def run_once(argv: Argv, load: Load, mock_args: tuple[float, float, float], seen: Seen) -> float:
    """CPU seconds of one run against a fresh server; errors are noted where stamps are printed."""
    with mock(*mock_args) as port, TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        cpu = cpu_of(argv(port, load), output)
        log = [one for one in served(port) if len(one["emitted"]) == load.chunks]
        if len(log) < load.requests:
            raise SystemExit(f"{len(log)} of {load.requests} requests were served")
        printed = output.read_bytes()
    if printed.startswith(b"[["):
        note_errors(json.loads(printed), log, seen)
    return cpu


def note_errors(
    found: list[tuple[int, float, list[float]]], log: list[dict[str, Any]], seen: Seen
) -> None:
    """Lay the client's stamps beside the server's."""
    truth = {one["fields"]["seed"]: one["emitted"] for one in log}
    late = [np.array(times) - np.array(truth[number]) for number, _, times in found]
    every = np.concatenate(late) * 1e3
    steps = np.concatenate([np.abs(np.diff(one)) for one in late]) * 1e3
    seen.ttft_p99.append(float(np.percentile([one[0] * 1e3 for one in late], 99)))
    seen.itl_p99.append(float(np.percentile(steps, 99)))
    seen.late_p50.append(float(np.percentile(every, 50)))
    seen.late_p99.append(float(np.percentile(every, 99)))


def own(kind: str) -> Argv:
    """The command of a client of ours."""
    return lambda port, load: [
        sys.executable,
        str(HERE / "clients.py"),
        kind,
        *map(str, (port, load.requests, load.streams, load.chunks)),
    ]


def vllm_bench(python: Path, tokenizer: Path) -> Argv:
    """The command of ``vllm bench serve``."""
    return lambda port, load: [
        *(str(python), "-c", _VLLM, "--backend", "openai-chat"),
        *("--endpoint", "/v1/chat/completions", "--port", str(port), "--model", "llm"),
        *("--tokenizer", str(tokenizer), "--dataset-name", "random", "--random-input-len", "100"),
        *("--random-output-len", str(load.chunks), "--num-prompts", str(load.requests)),
        *(
            "--max-concurrency",
            str(load.streams),
            "--disable-tqdm",
            "--ready-check-timeout-sec",
            "0",
        ),
    ]


def guidellm(command: Path, tokenizer: Path) -> Argv:
    """The command of guidellm."""
    return lambda port, load: [
        *(str(command), "run", "--disable-console"),
        *("--backend", f"kind=openai_http,target=http://127.0.0.1:{port},model=llm"),
        *("--profile", f"kind=concurrent,streams={load.streams}"),
        *("--constraint", f"kind=max_requests,count={load.requests}"),
        *("--data", f"kind=synthetic_text,prompt_tokens=100,output_tokens={load.chunks}"),
        *("--tokenizer", f"kind=hf_auto,model={tokenizer}"),
        *("--output", "kind=json,path=out.json"),
    ]


def measure(
    clients: dict[str, Argv], args: argparse.Namespace, mock_args: tuple[float, float, float]
) -> dict[str, Seen]:
    """Run each client in each round, with few and with many chunks a request."""
    found = {name: Seen() for name in clients}
    few = Load(args.requests, args.streams, args.few)
    many = Load(args.requests, args.streams, args.many)
    names = list(clients)
    for turn in range(args.rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            cpu = [run_once(clients[name], load, mock_args, found[name]) for load in (few, many)]
            chunks = (many.chunks - few.chunks) * args.requests
            found[name].cpu_ms.append((cpu[1] - cpu[0]) / chunks * 1e6)
            print(f"round {turn + 1} {name}: {cpu[0]:.2f} s, {cpu[1]:.2f} s", file=sys.stderr)
    return found


def table(title: str, found: dict[str, Seen]) -> None:
    """Print what was found; each figure is the median over the runs, with their range."""
    head = ["client", "CPU ms a 1,000 chunks", "ours / it", "TTFT error P99 ms"]
    head += ["ITL error P99 ms", "any chunk late P50 ms", "any chunk late P99 ms"]
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|---|{'---:|' * (len(head) - 1)}")
    for name, seen in found.items():
        ratios = [a / b for a, b in zip(found["ours"].cpu_ms, seen.cpu_ms, strict=True)]
        errors = (seen.ttft_p99, seen.itl_p99, seen.late_p50, seen.late_p99)
        cells = [name, spread(seen.cpu_ms, 1), spread(ratios, 2), *(spread(e, 2) for e in errors)]
        print(f"| {' | '.join(cells)} |")


def spread(values: list[float], digits: int) -> str:
    """Median and range, or a dash."""
    if not values:
        return "-"
    middle = statistics.median(values)
    return f"{middle:.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--vllm-python", type=Path, help="the engine's interpreter")
    parser.add_argument("--guidellm", type=Path, help="the guidellm command")
    parser.add_argument("--tokenizer", type=Path, help="folder of a model with a tokenizer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--few", type=int, default=50)
    parser.add_argument("--many", type=int, default=450)
    parser.add_argument("--even-only", action="store_true", help="leave the bursts out")
    args = parser.parse_args()
    clients = {"ours": own("ours"), "plain httpx": own("httpx")}
    if args.vllm_python:
        clients["vllm bench serve"] = vllm_bench(args.vllm_python, args.tokenizer)
    if args.guidellm:
        clients["guidellm"] = guidellm(args.guidellm, args.tokenizer)
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, {args.rounds} rounds, "
          f"{args.streams} streams, {args.requests} requests a run")  # fmt: skip
    even = measure(clients, args, (0.2, 0.02, 0.0))
    table("Chunks spread evenly, 20 ms apart in each stream", even)
    if args.even_only:
        return
    burst = measure(clients, args, (0.2, 0.02, 0.02))
    table("Chunks in bursts: all streams emit at the same multiple of 20 ms", burst)


if __name__ == "__main__":
    main()

"""Whatever carries a log, and whatever else is written into it, the judgement stays the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verdict.cases import Case, load_cases
from tuner.verdict import Evidence, Judgement, judge, read_log
from tuner.verdict.rules import table

CASES = [case for case in load_cases() if case.verdict is not None]

TIME = "2026-11-30T10:00:07"
CARRIERS: dict[str, Callable[[str], str]] = {
    "journald": lambda s: f"Nov 30 10:00:07 gpu-host vllm-serve[4242]: {s}",
    "journald iso": lambda s: f"{TIME}+0100 gpu-host python3[4242]: {s}",
    "syslog precise": lambda s: f"{TIME}.123456+01:00 host vllm.service[7]: {s}",
    "compose": lambda s: f"vllm-1  | {s}",
    "compose brackets": lambda s: f"[vllm]                 | {s}",
    "compose coloured": lambda s: f"\x1b[36mqwen3.5-4b  |\x1b[0m {s}",
    "docker timestamps": lambda s: f"{TIME}.123456789Z {s}",
    "docker json": lambda s: json.dumps({"log": s + "\n", "stream": "stderr", "time": TIME + "Z"}),
    "journald json": lambda s: json.dumps({"MESSAGE": s, "_PID": "4242"}),
    "kubernetes": lambda s: f"{TIME}.123456789+00:00 stderr F {s}",
    "kubectl prefix": lambda s: f"[pod/vllm-7f9b789b85-bkgth/server] {s}",
    "kubectl prefix and time": lambda s: f"[pod/vllm-7f/server] {TIME}.1Z {s}",
    "collector": lambda s: f"2026-11-30 10:00:07.340 | {s}",
    "compose with times": lambda s: f"vllm-1  | {TIME}.123456789Z {s}",
    "windows ends": lambda s: s + "\r",
    "colours": lambda s: f"\x1b[0;36m\x1b[1m{s}\x1b[0m",
}

NOISE = [
    "(Worker_TP7 pid=700) INFO 11-30 10:00:00 [gpu_model_runner.py:1] something ordinary",
    "(EngineCore pid=701) WARNING 11-30 10:00:00 [vllm.py:725] Model Runner V2 requires Triton.",
    "(APIServer pid=702) INFO 11-30 10:00:00 [launcher.py:195] Route: /metrics, Methods: GET",
    "/opt/x.py:138: FutureWarning: `torch.distributed.reduce_op` is deprecated",
    "(Worker_TP7 pid=700) \x1b[32mINFO\x1b[0m 11-30 10:00:00 [pynccl.py:113] vLLM is using nccl==2.28.9",
    "(APIServer pid=702) `torch_dtype` is deprecated! Use `dtype` instead!",
    "[Gloo] Rank 0 is connected to 0 peer ranks. Expected number of connected peer ranks is : 0",
    "\u0000\u0007 odd bytes \ufffd",
]


def judged(lines: list[str]) -> Judgement:
    return judge(Evidence(log=read_log(lines)))


def same(left: Judgement, right: Judgement) -> bool:
    return (left.verdict, left.rule, left.stage) == (right.verdict, right.rule, right.stage)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_carriers_do_not_change_a_judgement(carrier: str) -> None:
    wrap = CARRIERS[carrier]
    wrong = []
    for case in CASES:
        plain = judged(case.lines)
        carried = judged([wrap(line) for line in case.lines])
        if not same(plain, carried):
            wrong.append((case.name, carried.verdict, carried.rule))
    assert wrong == []


@pytest.mark.slow
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_ordinary_lines_between_do_not_change_a_judgement(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([c for c in CASES if not _counts_lines(c)]))
    lines = list(case.lines)
    for line in data.draw(st.lists(st.sampled_from(_ordinary(case)), max_size=12)):
        place = data.draw(st.integers(0, len(lines)))
        # A line may not come between two lines that one process writes without any prefix.
        if place in (0, len(lines)) or "pid=" in lines[place] or "pid=" in lines[place - 1]:
            if "pid=" not in line and 0 < place < len(lines):
                continue
            lines.insert(place, line)
    assert same(judged(case.lines), judged(lines))


def _ordinary(case: Case) -> list[str]:
    """Lines of the generation that the case's rule is about: in its log, another's are not ordinary."""
    generations = next((r.generations for r in table().rules if r.id == case.rule), ())
    told = {line: read_log([line]).boots[-1].generation for line in NOISE}
    return [s for s in NOISE if not generations or told[s] in (None, *generations)]


def _counts_lines(case: Case) -> bool:
    """Rules on the last lines mean the last lines; a prompt of several lines is one message."""
    return case.rule in {
        "worker-answers-no-more", "capture-waits-for-collectives", "mesh-lost-a-rank", "engine-never-reports",
    } or "Explain this log" in case.log  # fmt: skip


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. "
    "GPU {rank} has a total capacity of 31.72 GiB of which 100.00 MiB is free."
)
WORKERS = [
    [
        f"(Worker_TP{rank} pid={80 + rank}) ERROR 02-03 10:00:09 [multiproc_executor.py:597] {text}"
        for text in (
            "WorkerProc failed to start.",
            "Traceback (most recent call last):",
            '  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 2668, in load_model',
            "    self.model = model_loader.load_model(",
            "                 ^^^^^^^^^^^^^^^^^^^^^^^^",
            '  File "/opt/vllm/model_executor/layers/linear.py", line 310, in create_weights',
            OOM.format(rank=rank),
        )
    ]
    for rank in range(4)
]
ENGINE = [
    f"(EngineCore pid=70) ERROR 02-03 10:00:10 [core.py:1195] {text}"
    for text in (
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/executor/multiproc_executor.py", line 762, in wait_for_ready',
        "Exception: WorkerProc initialization failed due to an exception in a background process.",
    )
]


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_interleaved_workers_are_told_apart(seed: int) -> None:
    rng = random.Random(seed)
    threads = [list(lines) for lines in (*WORKERS, ENGINE)]
    merged = []
    while any(threads):
        thread = rng.choice([t for t in threads if t])
        merged.append(thread.pop(0))
    judgement = judged(merged)
    assert (judgement.verdict, judgement.stage) == ("device_oom_load", "loading")
    assert judgement.violation == pytest.approx((256 - 100) / (31.72 * 1024), rel=1e-3)


@given(st.lists(st.text(max_size=200), max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_without_an_error(lines: list[str]) -> None:
    judgement = judged([line.replace("\n", " ") for line in lines])
    assert judgement.verdict
    for proof in judgement.evidence:
        assert not any((ord(c) < 32 and c != "\t") or ord(c) == 127 for c in proof.text)


@given(st.binary(max_size=3000))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    judge(Evidence(log=read_log([data])))

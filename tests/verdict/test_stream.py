from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verdict.cases import Case, load_cases
from tuner.verdict import Evidence, Verdict, judge, read_log
from tuner.verdict.kinds import Rank, Stage
from tuner.verdict.rules import table
from tuner.verdict.stream import CHUNK, Gate

READY = [
    "(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.15.0",
    "INFO:     Application startup complete.",
]
ACCESS = 'INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK'
STATS = (
    "INFO 11-30 10:00:00 [loggers.py:208] Engine 000: Avg prompt throughput: 812.3 tokens/s,"
    " Avg generation throughput: 100.2 tokens/s, Running: 4 reqs"
)
DEAD = "(APIServer pid=1) ERROR 11-30 10:00:00 [async_llm.py:906] EngineDeadError: EngineCore encountered an issue."
FILL = [ACCESS, STATS] * 400
LONG_TAIL = [STATS] * 600  # more than the 64 KiB at the end that are always read


def _needs_the_start(case: Case) -> bool:
    """Whether a rule's stage lies before an engine serves, when every line is read anyway."""
    rule = table().by_id[case.rule]
    only_start = rule.stages and all(stage.before_ready for stage in rule.stages)
    return bool(only_start) or rule.last or (rule.stage is not None and rule.stage.before_ready)


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in load_cases()
        if case.hit
        and not _needs_the_start(case)
        and table().by_id[case.rule].rank is not Rank.NOTE
    ],
    ids=lambda case: case.name,
)
def test_failures_are_seen_in_the_middle_of_a_long_log(case: Case) -> None:
    fixture = [line for line in case.lines if "Application startup complete" not in line]
    reading = read_log([*READY, *FILL, *fixture, DEAD, *LONG_TAIL])
    assert case.rule in {hit.rule.id for boot in reading.boots for hit in boot.hits}


@pytest.mark.parametrize(
    "ending", ["terminate called after throwing an instance of 'std::bad_alloc'", "Killed"]
)
def test_the_end_of_a_log_is_read_whatever_is_in_it(ending: str) -> None:
    assert judge(Evidence(log=read_log([*READY, *FILL, ending]))).verdict is Verdict.HOST_OOM


def test_line_numbers_are_right_after_lines_that_were_passed_over() -> None:
    lines = [
        *READY,
        *FILL * 20,
        "ERROR 11-30 10:00:00 [x.py:1] torch.OutOfMemoryError: CUDA out of memory",
    ]
    reading = read_log([*lines, *LONG_TAIL])
    hit = next(hit for hit in reading.boots[-1].hits if hit.rule.id == "device-oom")
    assert hit.line == len(lines)
    assert reading.lines == len(lines) + len(LONG_TAIL)
    assert reading.tail[-1].line == reading.lines


def test_a_storm_of_failed_requests_hides_nothing() -> None:
    storm = [
        "ERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        '  File "/opt/uvicorn/protocols/http/httptools_impl.py", line 409, in run_asgi',
        "    result = await app(",
        "ValueError: a request of a strange shape",
    ]
    death = [
        "(EngineCore pid=5) ERROR 11-30 10:00:00 [core.py:1] torch.OutOfMemoryError: CUDA out of memory"
    ]
    healthy = judge(Evidence(log=read_log([*READY, *storm * 600])))
    assert healthy.verdict is Verdict.HEALTHY
    reading = read_log([*READY, *storm * 600, *death, *storm * 600])
    judgement = judge(Evidence(log=reading))
    assert judgement.verdict is Verdict.DEVICE_OOM_RUN
    assert judgement.evidence[0].line == 2 + 5 * 600 + 1
    assert reading.lines == 2 + 5 * 1200 + 1


def test_a_record_that_was_boring_and_then_says_something() -> None:
    same = "(EngineCore pid=5) ERROR 11-30 10:00:00 [odd.py:9] nothing to see"
    lines = [
        *READY,
        *FILL,
        *[same] * 1000,
        *FILL,
        same.replace("nothing to see", "uncorrectable ECC error"),
        *FILL,
    ]
    assert judge(Evidence(log=read_log(lines))).verdict in {Verdict.SICK_DEVICE, Verdict.HEALTHY}
    other = same.replace("odd.py:9", "other.py:7").replace(
        "nothing to see", "CUDA error: uncorrectable ECC error"
    )
    assert (
        judge(Evidence(log=read_log([*READY, *FILL, *[same] * 1000, *FILL, other]))).verdict
        is Verdict.SICK_DEVICE
    )


@given(sizes=st.lists(st.integers(1, 400), max_size=30), last_end=st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_cut_into_chunks_gives_every_line_with_a_trigger(
    sizes: list[int], *, last_end: bool
) -> None:
    lines = [f"{'WARN' if i % 7 == 0 else 'info'} line {i}" for i in range(1, 1001)]
    data = ("\n".join(lines) + ("\n" if last_end else "")).encode()
    gate, at = Gate(re.compile(b"WARN"), lambda: False, 20), 0
    found: list[tuple[int, bytes]] = []
    for size in [*sizes, len(data)]:
        found += gate.feed(data[at : at + size])
        at += size
    found += gate.close()
    numbers = [number for number, _ in found]
    assert numbers == sorted(set(numbers))
    assert all(raw.decode() == lines[number - 1] for number, raw in found)
    assert set(numbers) >= {*range(1, 21), *range(7, 1001, 7)}
    assert (gate.number, gate.size) == (1000, len(data))


@pytest.mark.slow
def test_one_line_without_an_end_does_not_fill_the_memory() -> None:
    reading = read_log([b"x" * (3 * CHUNK)])
    assert reading.size == 3 * CHUNK + 1
    assert judge(Evidence(log=reading)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "server.log"
    text = "vLLM läuft\r\nOSError: [Errno 98] Address already in use\r\n"
    data = text.encode(encoding)
    path.write_bytes(b"\xff\xfe" + data if encoding == "utf-16-le" else data)
    judgement = judge(Evidence(log=read_log(path)))
    assert judgement.verdict is Verdict.PORT_TAKEN
    assert judgement.evidence[0].line == 2


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_log(tmp_path / "none.log")


def test_many_restarts_are_counted_and_not_kept() -> None:
    loop = [READY[0], "ValueError: No available memory for the cache blocks."]
    reading = read_log(loop * 200)
    assert reading.starts == 200
    assert len(reading.boots) < 30
    assert reading.boots[-1].stage is Stage.STARTING

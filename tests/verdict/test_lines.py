from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.verdict.kinds import Level, Role
from tuner.verdict.lines import LONGEST, clean, parse, role_of


def only(raw: str) -> tuple[str, str, Role, Level, str]:
    (line,) = parse(raw, 3)
    assert line.number == 3
    return line.text, line.process, line.role, line.level, line.source


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            "(EngineCore_DP0 pid=9) ERROR 11-30 10:00:00 [core.py:708]   File x",
            ("  File x", "EngineCore_DP0 pid=9", Role.ENGINE, Level.ERROR, "core.py:708"),
        ),
        (
            "INFO 07-14 08:00:00 model_runner.py:1060] took",
            ("took", "", Role.NONE, Level.INFO, "model_runner.py:1060"),
        ),
        ("INFO 11-03 23:14 [core.py:1145] x", ("x", "", Role.NONE, Level.INFO, "core.py:1145")),
        (
            "INFO 2026-11-03 23:14:01 [v1/engine/core.py:1145] x",
            ("x", "", Role.NONE, Level.INFO, "v1/engine/core.py:1145"),
        ),
        ("INFO:     Shutting down", ("Shutting down", "", Role.NONE, Level.INFO, "uvicorn")),
        (
            "(VllmWorker rank=1 pid=24) INFO 05-10 16:00:15 [a.py:1] x",
            ("x", "VllmWorker_1 pid=24", Role.WORKER, Level.INFO, "a.py:1"),
        ),
        (
            "(EngineCore_DP0 pid=1) (RayWorkerWrapper pid=2, ip=192.0.2.5) ERROR 05-10 16:00:15 [a.py:1] x",
            ("x", "RayWorkerWrapper pid=2", Role.WORKER, Level.ERROR, "a.py:1"),
        ),
        ("(pid=53316) hello", ("hello", "pid=53316", Role.NONE, Level.NONE, "")),
        (
            "[rank0]: Traceback (most recent call last):",
            ("Traceback (most recent call last):", "rank0", Role.NONE, Level.NONE, ""),
        ),
        (
            "[rank0]:[W1130 03:55:39.489923497 ProcessGroupNCCL.cpp:4718] Warning: x",
            ("Warning: x", "rank0", Role.NONE, Level.WARNING, "ProcessGroupNCCL.cpp:4718"),
        ),
        (
            "[E ProcessGroupGloo.cpp:138] Gloo failed",
            ("Gloo failed", "", Role.NONE, Level.ERROR, "ProcessGroupGloo.cpp:138"),
        ),
        (
            "2025-06-20 20:02:21,013 - __main__ - ERROR - it ended",
            ("it ended", "", Role.NONE, Level.ERROR, "__main__"),
        ),
        (
            "[78478.861845] Memory cgroup out of memory",
            ("Memory cgroup out of memory", "", Role.KERNEL, Level.NONE, ""),
        ),
        ("Nov 30 10:00:00 host kernel: NVRM: Xid", ("NVRM: Xid", "", Role.KERNEL, Level.NONE, "")),
        ("a line | with a bar", ("a line | with a bar", "", Role.NONE, Level.NONE, "")),
        (
            "| 0%   32C   P0 | 513MiB / 32768MiB |",
            ("| 0%   32C   P0 | 513MiB / 32768MiB |", "", Role.NONE, Level.NONE, ""),
        ),
        ("  indented", ("  indented", "", Role.NONE, Level.NONE, "")),
        ("", ("", "", Role.NONE, Level.NONE, "")),
    ],
)
def test_prefixes(raw: str, expected: tuple[str, str, Role, Level, str]) -> None:
    assert only(raw) == expected


def test_a_progress_bar_before_a_record() -> None:
    bar = "Capturing CUDA graph shapes:   0%|      | 0/11 [00:00<?, ?it/s]"
    raw = f"{bar}(VllmWorkerProcess pid=21) ERROR 04-24 08:27:56 [a.py:1] x"
    lines = list(parse(raw, 1))
    assert [line.text for line in lines] == [
        "Capturing CUDA graph shapes:   0%|      | 0/11 [00:00<?, ?it/s]",
        "x",
    ]
    assert lines[1].level is Level.ERROR


def test_only_what_a_terminal_would_show_of_a_line_that_was_written_over() -> None:
    assert only("loading 10%\rloading 100%\r\n")[0] == "loading 100%"


def test_json_with_a_traceback() -> None:
    raw = json.dumps(
        {
            "levelname": "ERROR",
            "message": "it failed",
            "exc_info": "Traceback (most recent call last):\nValueError: x",
        }
    )
    assert [(line.text, line.level) for line in parse(raw, 1)] == [
        ("it failed", Level.ERROR),
        ("Traceback (most recent call last):", Level.ERROR),
        ("ValueError: x", Level.ERROR),
    ]


@pytest.mark.parametrize("raw", ["{not json}", "{}", '{"a": 1}', "[1]"])
def test_what_only_looks_like_json(raw: str) -> None:
    assert only(raw)[0] == raw


@given(st.text())
def test_clean_text_holds_nothing_that_moves_a_cursor(text: str) -> None:
    found = clean(text)
    assert len(found) <= LONGEST
    assert not any((ord(c) < 32 and c != "\t") or 127 <= ord(c) < 160 for c in found)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("APIServer", Role.API),
        ("ApiServer_0", Role.API),
        ("EngineCore_DP1", Role.ENGINE),
        ("Worker_TP0_EP0", Role.WORKER),
        ("VllmWorker-0", Role.WORKER),
        ("RayWorkerWrapper", Role.WORKER),
        ("something", Role.NONE),
    ],
)
def test_roles(name: str, role: Role) -> None:
    assert role_of(name) is role

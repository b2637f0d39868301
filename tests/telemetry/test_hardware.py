import json
import os
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.telemetry.hardware import NumaNode, detect_hardware, parse_cpu_list
from tuner.telemetry.samples import NoDevices


def test_this_machine() -> None:
    found = detect_hardware(NoDevices())
    assert found.telemetry == "none"
    assert found.devices == ()
    assert found.cpus == tuple(sorted(os.sched_getaffinity(0)))
    assert 1 <= found.cores <= len(found.cpus)
    assert 0 < found.memory_available <= found.memory_total <= psutil.virtual_memory().total
    json.dumps(found.as_json())


def test_quota_limit_and_nodes(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/memory.max": str(2**30),
        "sys/fs/cgroup/memory.current": str(2**29),
        "sys/fs/cgroup/cpu.max": "50000 100000",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       1024 kB\n",
        "sys/devices/system/node/node0/cpulist": "0-1\n",
        "sys/devices/system/node/node10/cpulist": "2,3\n",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some Chip 9000\nflags\t: fpu amx_tile avx512_bf16\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = detect_hardware(NoDevices(), root=tmp_path)
    assert (found.cpu_quota, found.cores) == (0.5, 1)
    assert (found.memory_total, found.memory_available) == (2**30, 2**29)
    assert found.processor == "Some Chip 9000"
    assert found.cpu_flags == ("amx_tile", "avx512_bf16")
    assert found.numa == (NumaNode(0, (0, 1), 2**20), NumaNode(10, (2, 3), None))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([60, 38], 60),  # a worker has its own node, not both
        ([39], None),  # memory that is plugged in as it is needed
        ([], None),
        ([None], None),
    ],
)
def test_a_worker_has_its_node(nodes: list[int | None], expected: int | None) -> None:
    numa = tuple(NumaNode(number, (0,), total) for number, total in enumerate(nodes))
    found = replace(detect_hardware(NoDevices()), machine_memory=100, memory_total=90, numa=numa)
    assert found.worker_memory == expected
    small = replace(found, memory_total=10)
    assert small.worker_memory in (10, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-2,4\n", (0, 1, 2, 4)), ("", ()), ("3", (3,)), ("a,5-x,7", (7,)), ("9-1", ()), ("²", ())],
)
def test_processor_lists(text: str, expected: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == expected


@given(st.text(max_size=30))
def test_no_list_raises(text: str) -> None:
    parse_cpu_list(text)

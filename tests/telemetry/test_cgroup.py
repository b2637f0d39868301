from pathlib import Path

import pytest

from tuner.telemetry.cgroup import CgroupMemory, cgroup_memory, cpu_quota

MIB = 2**20


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_version_2_takes_the_tightest_of_all_levels(tmp_path: Path) -> None:
    root = tree(tmp_path, {
        "proc/self/cgroup": "0::/user.slice/job\n",
        "sys/fs/cgroup/user.slice/memory.max": f"{800 * MIB}\n",
        "sys/fs/cgroup/user.slice/memory.current": f"{700 * MIB}\n",
        "sys/fs/cgroup/user.slice/memory.stat": f"anon 5\ninactive_file {100 * MIB}\n",
        "sys/fs/cgroup/user.slice/job/memory.max": "max\n",
        "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
        "sys/fs/cgroup/user.slice/job/cpu.max": "150000 100000\n",
    })  # fmt: skip
    found = cgroup_memory(root)
    assert found == CgroupMemory(limit=800 * MIB, used=600 * MIB)
    assert found.available == 200 * MIB
    assert cpu_quota(root) == 1.5


def test_the_level_with_the_least_room_counts_not_the_least_limit(tmp_path: Path) -> None:
    root = tree(tmp_path, {
        "proc/self/cgroup": "0::/a/b\n",
        "sys/fs/cgroup/a/memory.max": str(900 * MIB),
        "sys/fs/cgroup/a/memory.current": str(890 * MIB),
        "sys/fs/cgroup/a/b/memory.max": str(500 * MIB),
        "sys/fs/cgroup/a/b/memory.current": str(100 * MIB),
    })  # fmt: skip
    found = cgroup_memory(root)
    assert found is not None
    assert found.available == 10 * MIB


def test_version_1(tmp_path: Path) -> None:
    root = tree(tmp_path, {
        "proc/self/cgroup": "4:memory:/job\n2:cpu,cpuacct:/job\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": str(512 * MIB),
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": str(300 * MIB),
        "sys/fs/cgroup/memory/job/memory.stat": f"total_inactive_file {50 * MIB}\n",
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "200000",
        "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
    })  # fmt: skip
    assert cgroup_memory(root) == CgroupMemory(512 * MIB, 250 * MIB)
    assert cpu_quota(root) == 2.0


def test_a_container_whose_path_is_the_hosts(tmp_path: Path) -> None:
    root = tree(tmp_path, {
        "proc/self/cgroup": "4:memory:/docker/abc\n1:cpu:/docker/abc\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": str(64 * MIB),
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
    })  # fmt: skip
    assert cgroup_memory(root) == CgroupMemory(64 * MIB, None)
    assert cpu_quota(root) is None


@pytest.mark.parametrize("text", ["", "nonsense", "0::/../../etc", "a:b", "0:::::"])
def test_no_limits_and_no_trouble(tmp_path: Path, text: str) -> None:
    root = tree(tmp_path, {"proc/self/cgroup": text, "sys/fs/cgroup/memory.max": "what"})
    assert cgroup_memory(root) is None
    assert cpu_quota(root) is None


def test_this_machine_can_be_read() -> None:
    found = cgroup_memory()
    assert found is None or found.limit > 0
    quota = cpu_quota()
    assert quota is None or quota > 0

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import TelemetryLost
from tuner.telemetry.ixsmi import IxsmiSource, find_ixsmi

FAKE = Path(__file__).parent.parent / "fakes" / "fake_ixsmi.py"
TABLE = Path(__file__).parent.parent / "data" / "ixsmi" / "table_3_0_1.txt"
MIB = 2**20

CARDS = [
    {
        "index": 0, "uuid": "GPU-aa", "pci.bus_id": "00000000:1E:00.0", "name": "Iluvatar BI-V100",
        "memory.used": 257, "memory.total": 32768, "utilization.gpu": 7, "power.draw": 55,
        "gpu.power.draw": 56, "temperature.gpu": 32, "clocks.sm": 1500, "clocks.mem": 1200,
    },
    {"index": 1, "uuid": "GPU-bb", "name": "Iluvatar BI-V100", "memory.used": 260},
]  # fmt: skip
RELEASE_3 = ["index", "uuid", "name", "memory.used", "memory.total", "utilization.gpu",
             "power.draw", "temperature.gpu", "pci.bus_id"]  # fmt: skip
RELEASE_4 = [*RELEASE_3[:6], "gpu.power.draw", "temperature.gpu", "clocks.sm", "clocks.mem"]


class Bench:
    """A source over the fake tool, and the tool's log of its runs."""

    def __init__(self, folder: Path) -> None:
        self.spec_file = folder / "spec.json"
        self.log = folder / "log"
        self.spec: dict[str, Any] = {"cards": CARDS, "known": RELEASE_3, "log": str(self.log)}

    def source(self, *, timeout: float = 20.0, **spec: Any) -> IxsmiSource:
        self.set(**spec)
        return IxsmiSource(str(FAKE), timeout=timeout)

    def set(self, **spec: Any) -> None:
        self.spec.update(spec)
        self.spec_file.write_text(json.dumps(self.spec))

    @property
    def runs(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    found = Bench(tmp_path)
    monkeypatch.setenv("FAKE_IXSMI", str(found.spec_file))
    return found


@pytest.mark.slow
def test_an_old_release_by_its_own_names(bench: Bench) -> None:
    source = bench.source(known=RELEASE_3)
    first, second = source.sample()
    assert (first.uuid, first.memory_used, first.power) == ("GPU-aa", 257 * MIB, 55)
    assert first.bus_id == "00000000:1e:00.0"
    assert (second.memory_used, second.memory_total, second.utilization) == (260 * MIB, None, None)


def test_a_new_release_by_its_own_names(bench: Bench) -> None:
    first = bench.source(known=RELEASE_4, units=False).sample()[0]
    assert (first.power, first.sm_clock, first.memory_clock) == (56, 1500, 1200)


@pytest.mark.slow
def test_refused_names_are_learnt_once(bench: Bench) -> None:
    source = bench.source(known=RELEASE_3)
    source.sample()
    learning = len(bench.runs)
    source.sample()
    assert learning > 2
    assert len(bench.runs) == learning + 1


@pytest.mark.slow
def test_devices_tell_the_driver(bench: Bench) -> None:
    infos = bench.source(table=TABLE.read_text()).devices()
    assert [(info.key, info.driver) for info in infos] == [("GPU-aa", "3.0.1"), ("GPU-bb", "3.0.1")]


def test_the_table_serves_where_the_query_does_not(bench: Bench) -> None:
    source = bench.source(csv=False, table=TABLE.read_text())
    assert [each.index for each in source.sample()] == [4, 5]
    runs = len(bench.runs)
    source.sample()
    assert len(bench.runs) == runs + 1, "the query is not tried for ever"


@pytest.mark.slow
def test_a_card_keeps_its_identity_when_the_query_fails_for_once(bench: Bench) -> None:
    source = bench.source(table=TABLE.read_text())
    before = source.sample()[0].key
    bench.set(csv=False)
    assert source.sample()[0].key == before
    bench.set(csv=True)
    assert source.sample()[0].memory_used == 257 * MIB


@pytest.mark.slow
def test_no_memory_field_at_all_means_the_table(bench: Bench) -> None:
    source = bench.source(known=["index", "uuid"], table=TABLE.read_text())
    assert source.sample()[0].memory_used == 513 * MIB


def test_nothing_readable_is_a_failure(bench: Bench) -> None:
    source = bench.source(csv=False, table="Failed to initialize IXML: driver not loaded\n")
    with pytest.raises(TelemetryLost, match="driver not loaded"):
        source.sample()


def test_a_tool_that_hangs_is_given_up_in_time(bench: Bench) -> None:
    source = bench.source(timeout=0.3, hang=60)
    began = time.monotonic()
    with pytest.raises(TelemetryLost, match="took more than"):
        source.sample()
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_the_tools_own_cost_is_counted(bench: Bench) -> None:
    source = bench.source()
    source.sample()
    assert source.cpu_seconds() > 0


def test_a_missing_tool_is_said(tmp_path: Path) -> None:
    with pytest.raises(TelemetryLost, match="is not on this machine"):
        IxsmiSource(str(tmp_path / "ixsmi"))


def test_the_tool_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ixsmi").symlink_to(FAKE)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ixsmi() == str(tmp_path / "ixsmi")

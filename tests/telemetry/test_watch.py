import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tuner.errors import TelemetryLost
from tuner.telemetry.host import EngineTree
from tuner.telemetry.samples import DeviceSample, NoDevices, Sample
from tuner.telemetry.watch import Watch, read_samples


class Scripted(NoDevices):
    """A source whose samples are made by a function of the number of the call."""

    def __init__(self, make: Callable[[int], list[DeviceSample]]) -> None:
        self.make = make
        self.calls = 0

    def sample(self) -> list[DeviceSample]:
        self.calls += 1
        return self.make(self.calls)


def card(util: float = 29.0) -> list[DeviceSample]:
    return [DeviceSample(0, uuid="u", memory_used=1, memory_total=10, utilization=util)]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.name == "tuner-watch"]
    for thread in left:
        thread.join(5)
    assert [t for t in left if t.is_alive()] == []


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_samples_are_written_and_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    source = Scripted(lambda _: card())
    with Watch(source, path=path, rate=20) as watch:
        wait_for(lambda: source.calls >= 5)
    samples = list(read_samples(path))
    assert len(samples) == watch.summary().samples >= 5
    assert [each.at for each in samples] == sorted(each.at for each in samples)
    assert samples[0].devices == tuple(card())
    assert samples[0].host is not None
    found = watch.summary().devices[0].utilization
    assert found is not None
    assert found.mean == 29


def test_the_watch_tells_its_own_cost(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    source = Scripted(lambda _: card())
    watch = Watch(source, path=path, rate=20)
    watch.start()
    wait_for(lambda: source.calls >= 4)
    cost = watch.stop()
    assert cost.cpu_seconds > 0
    assert cost.wall_seconds >= 0.15
    assert 0 < cost.share < 1
    assert watch.stop() == cost, "stopping twice changes nothing"
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["cost"]["cpu_seconds"] > 0


def test_the_cost_of_the_sources_programs_is_in_it() -> None:
    class Costly(Scripted):
        def cpu_seconds(self) -> float:
            return 100.0 + self.calls

    source = Costly(lambda _: card())
    with Watch(source, rate=20) as watch:
        wait_for(lambda: source.calls >= 3)
    assert 3 <= watch.cost().cpu_seconds < 100


def test_stages_are_kept_apart() -> None:
    source = Scripted(lambda _: card())
    with Watch(source, rate=20) as watch:
        watch.mark("warm")
        wait_for(lambda: watch.summary("warm").samples >= 2)
        watch.mark("measure")
        wait_for(lambda: watch.summary("measure").samples >= 2)
    assert watch.summary("never").samples == 0
    stages = ("start", "warm", "measure")
    assert sum(watch.summary(each).samples for each in stages) == watch.summary().samples


@pytest.mark.parametrize("problem", [TelemetryLost("driver gone"), RuntimeError("binding broken")])
def test_a_failing_source_is_a_gap_and_recovers(problem: Exception) -> None:
    def make(call: int) -> list[DeviceSample]:
        if call == 2:
            raise problem
        return card()

    source = Scripted(make)
    with Watch(source, rate=20) as watch:
        wait_for(lambda: source.calls >= 4)
    found = watch.summary()
    assert found.gaps == 1
    assert str(problem) in found.gap_reasons[0]
    assert found.devices[0].samples == found.samples - 1


def test_a_card_that_cannot_be_read_is_a_gap() -> None:
    source = Scripted(lambda _: [DeviceSample(0, uuid="u", error="GPU is lost")])
    with Watch(source, rate=20) as watch:
        wait_for(lambda: source.calls >= 2)
    assert watch.summary().gap_reasons == ("device u: GPU is lost",)


def test_a_driver_that_hangs_does_not_hold_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.telemetry.watch._STOP_WAIT", 0.1)
    release, answered = threading.Event(), threading.Event()

    def make(call: int) -> list[DeviceSample]:
        release.wait(10)
        answered.set()
        return card()

    source = Scripted(make)
    watch = Watch(source, rate=20)
    watch.start()
    wait_for(lambda: source.calls == 1)
    watch.mark("measure")
    watch.stop()
    assert not answered.is_set()  # it did not wait for the source
    assert "did not answer" in watch.summary().gap_reasons[0]
    release.set()


@pytest.mark.parametrize("where", ["no/such/folder/file", "."])
def test_a_file_that_cannot_be_written_is_a_gap(tmp_path: Path, where: str) -> None:
    source = Scripted(lambda _: card())
    with Watch(source, path=tmp_path / where, rate=20) as watch:
        wait_for(lambda: source.calls >= 2)
    assert "samples are not written" in watch.summary().gap_reasons[0]
    assert watch.summary().devices[0].samples >= 2


def test_a_full_disk_ends_the_writing_not_the_watching() -> None:
    source = Scripted(lambda _: card())
    with Watch(source, path=Path("/dev/full"), rate=20) as watch:
        wait_for(lambda: source.calls >= 4)
    found = watch.summary()
    assert "No space left" in found.gap_reasons[0]
    assert found.devices[0].samples == found.samples


def test_a_listener_hears_each_sample_and_may_fail() -> None:
    heard: list[Sample] = []

    def listener(sample: Sample) -> None:
        heard.append(sample)
        if len(heard) == 2:
            raise ValueError("listener's own bug")

    source = Scripted(lambda _: card())
    with Watch(source, rate=20, on_sample=listener) as watch:
        wait_for(lambda: source.calls >= 4)
    assert len(heard) == 2
    assert any("listener's own bug" in reason for reason in watch.summary().gap_reasons)


def most_processes(watch: Watch) -> float:
    found = watch.summary().tree_processes
    return 0 if found is None else found.high


def most_memory(watch: Watch) -> float:
    found = watch.summary().tree_rss
    return 0 if found is None else found.high


def test_the_engine_is_followed_from_the_moment_it_is_known() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as engine,
        Watch(NoDevices(), rate=20, tree=EngineTree(pss_every=0)) as watch,
    ):
        watch.follow(engine.pid)
        wait_for(lambda: most_processes(watch) == 1 and most_memory(watch) > 2**20)
        engine.kill()
    found = watch.summary()
    assert found.devices == ()


def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    good = json.dumps(Sample(1.0, "x", None, None, None).as_json())
    path.write_text(f'{good}\n{{"cost": 1}}\n[1]\n{good[:20]}')
    assert [each.at for each in read_samples(path)] == [1.0]


def test_a_watch_that_never_started_can_be_stopped() -> None:
    assert Watch(NoDevices()).stop().samples == 0


def test_a_senseless_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="samples a second"):
        Watch(NoDevices(), rate=0)

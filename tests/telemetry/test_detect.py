import pytest

from tuner.errors import TelemetryLost
from tuner.telemetry.detect import detect, visible
from tuner.telemetry.samples import DeviceInfo, DeviceSource, NoDevices

CARDS = [DeviceInfo(i, f"GPU-{i}{i}", None, "card", 2**30) for i in range(4)]


class Some(NoDevices):
    def __init__(self, kind: str = "nvml", count: int = 1) -> None:
        self.kind = kind
        self.count = count
        self.closed = False

    def devices(self) -> list[DeviceInfo]:
        return CARDS[: self.count]

    def close(self) -> None:
        self.closed = True


def broken() -> DeviceSource:
    raise TelemetryLost("NVML does not start: Driver Not Loaded")


def test_the_first_source_with_a_device_wins() -> None:
    found = detect(openers={"nvml": broken, "ixsmi": lambda: Some("ixsmi")})
    assert found.source.kind == "ixsmi"
    assert found.notes == ("NVML does not start: Driver Not Loaded",)


def test_a_source_without_devices_is_closed_and_passed_over() -> None:
    empty = Some(count=0)
    found = detect(openers={"nvml": lambda: empty})
    assert found.source.kind == "none"
    assert found.notes == ("nvml shows no device",)
    assert empty.closed


@pytest.mark.parametrize("error", [TelemetryLost("gone"), OSError("a fault"), KeyboardInterrupt()])
def test_a_source_that_fails_at_the_first_look_is_closed(error: BaseException) -> None:
    class Failing(Some):
        def devices(self) -> list[DeviceInfo]:
            raise error

    failing = Failing()
    with pytest.raises(type(error)):
        detect("nvml", openers={"nvml": lambda: failing})
    assert failing.closed


def test_a_named_kind_is_never_replaced() -> None:
    with pytest.raises(TelemetryLost, match="Driver Not Loaded"):
        detect("nvml", openers={"nvml": broken, "ixsmi": lambda: Some("ixsmi")})
    with pytest.raises(ValueError, match="no kind of telemetry"):
        detect("magic")


def test_none_is_a_choice() -> None:
    source = detect("none").source
    assert isinstance(source, DeviceSource)
    assert (source.kind, source.devices(), source.sample()) == ("none", [], [])
    assert source.cpu_seconds() == 0
    source.close()


def test_this_machine_is_detected_without_trouble() -> None:
    found = detect()
    found.source.sample()
    found.source.close()
    assert found.source.kind != "none" or len(found.notes) == 2


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-33,GPU-1"}, [3, 1]),
        ({"CUDA_VISIBLE_DEVICES": "1,9,0"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "GPU-"}, []),
        ({"CUDA_VISIBLE_DEVICES": "1,1"}, [1]),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, [0, 1, 2, 3]),
        ({"ILUVATAR_COREX_VISIBLE_DEVICES": " 3 , 2 "}, [3, 2]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_what_an_engine_can_see(env: dict[str, str], expected: list[int]) -> None:
    assert [each.index for each in visible(CARDS, env)] == expected

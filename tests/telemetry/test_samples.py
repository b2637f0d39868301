import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.telemetry.samples import (
    DeviceSample,
    HostSample,
    Sample,
    TreeSample,
    normal_bus_id,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:1E:00.0", "00000000:1e:00.0"),
        ("0000:1e:00.0", "00000000:1e:00.0"),
        ("1E:00.0", "00000000:1e:00.0"),
        ("nonsense", None),
        (None, None),
        ("", None),
    ],
)
def test_one_form_of_a_bus_address(text: str | None, expected: str | None) -> None:
    assert normal_bus_id(text) == expected


def test_free_memory_needs_both_numbers() -> None:
    assert DeviceSample(0, memory_used=3, memory_total=10).memory_free == 7
    assert DeviceSample(0, memory_used=3).memory_free is None
    assert DeviceSample(0, memory_total=3).memory_free is None


def test_what_identifies_a_card() -> None:
    assert DeviceSample(3, uuid="u", bus_id="b").key == "u"
    assert DeviceSample(3, bus_id="b").key == "b"
    assert DeviceSample(3).key == "#3"


_SAMPLES = st.builds(
    Sample,
    at=st.floats(0, 1e6),
    stage=st.text(max_size=5),
    host=st.none()
    | st.builds(HostSample, st.none() | st.floats(0, 100), st.none() | st.integers(0), st.none()),
    tree=st.none()
    | st.builds(TreeSample, st.integers(0), st.integers(0), st.none(), st.floats(0, 1e6)),
    devices=st.none()
    | st.lists(
        st.builds(
            DeviceSample,
            st.integers(0, 99),
            utilization=st.none() | st.floats(0, 100),
            memory_used=st.none() | st.integers(0),
        ),
        max_size=3,
    ).map(tuple),
    gap=st.none() | st.text(max_size=5),
)


@given(_SAMPLES)
def test_a_sample_survives_a_line_of_json(sample: Sample) -> None:
    assert Sample.from_json(json.loads(json.dumps(sample.as_json()))) == sample


def test_a_field_of_a_later_version_is_left_out() -> None:
    data = Sample(0.0, "x", None, None, (DeviceSample(0),)).as_json()
    data["devices"][0]["flux"] = 1
    assert Sample.from_json(data).devices == (DeviceSample(0),)

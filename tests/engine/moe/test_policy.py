from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginex.errors import SettingError
from enginex.moe.names import AUTO, VARIANTS
from enginex.moe.policy import FORMAT, Key, Policy, check_device, cpu_device, read, write

KEY = Key("cpu:x", 2, "bf16", 64, 256, 64, 8)
CHOICES = st.dictionaries(
    st.integers(1, 256), st.sampled_from([v for v in VARIANTS if v != AUTO]), min_size=1, max_size=8
)


def test_between_measured_numbers_the_next_larger_counts_and_above_them_native() -> None:
    policy = Policy({KEY: {1: "loop", 4: "bmm"}})
    assert policy.table(KEY, 6) == {
        1: "loop",
        2: "bmm",
        3: "bmm",
        4: "bmm",
        5: "native",
        6: "native",
    }
    assert policy.table(KEY, 0) == {}


def test_another_shape_device_or_number_of_threads_is_not_known() -> None:
    policy = Policy({KEY: {1: "loop"}})
    assert policy.table(Key("cpu:x", 1, "bf16", 64, 256, 64, 8), 4) is None
    assert policy.table(Key("cpu:y", 2, "bf16", 64, 256, 64, 8), 4) is None
    assert policy.table(Key("cpu:x", 2, "bf16", 64, 256, 32, 8), 4) is None


PART = st.sampled_from(("a", "b"))
KEYS = st.builds(
    Key, PART, st.integers(1, 2), PART, st.integers(1, 2), *([st.just(1)] * 2), st.integers(1, 2)
)


@given(known=st.sets(KEYS, max_size=6), key=KEYS)
def test_something_is_lacking_exactly_where_there_is_no_entry(known: set[Key], key: Key) -> None:
    policy = Policy({each: {1: "loop"} for each in known})
    lacks = policy.lacks(key)
    assert (lacks is None) == (policy.table(key, 1) is not None)
    if lacks is not None:
        part, here, measured = lacks
        assert part in {"device", "shape", "dtype", "threads"}
        assert here not in measured.split(",")
        assert (measured == "nothing") == (not known)
        assert not any(c.isspace() for c in here + measured)


def test_a_policy_of_other_devices_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    with pytest.raises(SettingError, match="was measured on cpu:x and this is cpu:") as caught:
        check_device(Policy({KEY: {1: "loop"}}), path)
    assert str(caught.value).count("\n") == 0
    assert "tuner kernels MODEL" in str(caught.value)
    with pytest.raises(SettingError, match="was measured on nothing"):
        check_device(Policy({}), path)
    mine = replace(KEY, device=cpu_device())
    check_device(Policy({KEY: {1: "loop"}, mine: {1: "loop"}}), path)


@given(choices=CHOICES, hidden=st.integers(1, 10**6), other=CHOICES)
def test_what_is_written_is_read_and_the_bytes_do_not_depend_on_order(
    tmp_path_factory: pytest.TempPathFactory,
    choices: dict[int, str],
    hidden: int,
    other: dict[int, str],
) -> None:
    path = tmp_path_factory.mktemp("policy") / "policy.json"
    second = Key("cpu:x", 2, "fp32", 1, hidden, 1, 1)
    write(path, Policy({KEY: choices, second: other}))
    first_bytes = path.read_bytes()
    assert read(path) == Policy({KEY: choices, second: other})
    write(path, Policy({second: other, KEY: choices}))
    assert path.read_bytes() == first_bytes
    assert [p.name for p in path.parent.iterdir()] == ["policy.json"]


def content(**changes: Any) -> dict[str, Any]:
    entry = {
        "device": "cpu:x",
        "threads": 2,
        "dtype": "bf16",
        "experts": 1,
        "hidden": 1,
        "inter": 1,
        "topk": 1,
    }
    return {"format": FORMAT, "entries": [entry | {"by_tokens": {"1": "loop"}} | changes]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "its format is not"),
        ('{"format": "enginex-policy/2"}', "its format is not"),
        (json.dumps({"format": FORMAT}), "is not a policy: KeyError"),
        (json.dumps(content(by_tokens={"1": "lopp"})), "'lopp' is no variant that can be chosen"),
        (json.dumps(content(by_tokens={"1": "auto"})), "'auto' is no variant that can be chosen"),
        (json.dumps(content(by_tokens={"0": "loop"})), "0 tokens"),
        (json.dumps(content(threads="many")), "is not a policy: ValueError"),
    ],
)
def test_what_is_no_policy_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(SettingError, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read: No such file or directory"):
        read(tmp_path / "none.json")


def test_the_device_is_one_word() -> None:
    assert cpu_device().startswith("cpu:")
    assert not any(c.isspace() for c in cpu_device())

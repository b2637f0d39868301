import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.telemetry.baseline import Baseline, allowance, idle_baseline, is_back
from tuner.telemetry.samples import DeviceInfo, DeviceSample

MIB = 2**20
TOTAL = 32768 * MIB
CARD = DeviceInfo(0, "GPU-a", None, "BI-V100", TOTAL)


def at(used: int | None, uuid: str = "GPU-a", error: str | None = None) -> list[DeviceSample]:
    return [DeviceSample(0, uuid=uuid, memory_used=used, memory_total=TOTAL, error=error)]


REST = idle_baseline([CARD], [at(257 * MIB), at(257 * MIB)])


def test_the_allowance_is_the_larger_of_the_two() -> None:
    assert allowance(8 * 2**30) == 256 * MIB
    assert allowance(TOTAL) == int(0.02 * TOTAL) > 600 * MIB


@pytest.mark.parametrize(
    ("rounds", "ok"),
    [
        ([257, 257], True),
        ([900, 900], True),  # 643 above, 655 allowed
        ([913, 913], False),
        ([30_000, 257], False),  # on the way down: only one sample is low
        ([30_000, 257, 257], True),
        ([300, 500], False),  # low enough, but it still moves
        ([258, 257], True),  # equal within what the tools print
        ([257], False),
        ([], False),
        ([9, 9], True),  # below the baseline: somebody else went away
    ],
)
def test_back_or_not(rounds: list[int], ok: bool) -> None:  # noqa: FBT001 — a table of cases
    assert is_back(REST, [at(used * MIB) for used in rounds]).ok is ok


def test_reasons_say_how_much_too_much() -> None:
    found = is_back(REST, [at(30_000 * MIB)] * 2)
    assert found.excess == {"GPU-a": (30_000 - 257) * MIB}
    assert "29.0 GiB above its baseline" in found.reasons[0]


def test_missing_telemetry_is_a_failure() -> None:
    assert (
        "cannot be read (GPU is lost)"
        in is_back(REST, [at(257 * MIB), at(None, error="GPU is lost")]).reasons[0]
    )
    assert "not there any more" in is_back(REST, [at(257 * MIB, uuid="GPU-b")] * 2).reasons[0]
    assert not is_back(REST, [[], []]).ok


def test_a_baseline_that_could_not_be_read_never_passes() -> None:
    cases: list[list[list[DeviceSample]]] = [
        [], [at(5)], [at(None), at(5)], [at(5), at(None)], [[], []],
    ]  # fmt: skip
    for rounds in cases:
        blind = idle_baseline([CARD], rounds)
        assert blind.problems
        assert not is_back(blind, [at(5), at(5)]).ok


def test_memory_that_moves_is_no_baseline() -> None:
    assert idle_baseline([CARD], [at(5000 * MIB), at(257 * MIB)]).problems
    assert not idle_baseline([CARD], [at(5000 * MIB), at(257 * MIB), at(257 * MIB)]).problems


def test_a_host_without_devices_has_nothing_to_prove() -> None:
    assert is_back(idle_baseline([], []), []).ok


def test_other_cards_do_not_matter() -> None:
    other = [*at(257 * MIB), *at(TOTAL, uuid="GPU-b")]
    assert is_back(REST, [other, other]).ok


def test_a_baseline_survives_the_ledger() -> None:
    assert Baseline.from_json(json.loads(json.dumps(REST.as_json()))) == REST


@given(
    rest=st.integers(0, TOTAL),
    rounds=st.lists(st.one_of(st.none(), st.integers(0, TOTAL)), max_size=5),
)
def test_a_pass_always_has_two_good_samples(rest: int, rounds: list[int | None]) -> None:
    baseline = idle_baseline([CARD], [at(rest), at(rest)])
    found = is_back(baseline, [at(used) for used in rounds])
    assert found.ok == (not found.reasons)
    if found.ok:
        last = rounds[-2:]
        assert len(last) == 2
        assert all(used is not None and used <= rest + allowance(TOTAL) for used in last)

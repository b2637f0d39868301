from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.telemetry.ixsmi_text import invalid_field, parse_csv, parse_driver, parse_table

DATA = Path(__file__).parent.parent / "data" / "ixsmi"
MIB = 2**20


def test_the_table_of_a_healthy_and_a_wedged_card() -> None:
    text = (DATA / "table_3_0_1.txt").read_text()
    healthy, wedged = parse_table(text)
    assert (healthy.index, healthy.name) == (4, "Iluvatar BI-V100")
    assert healthy.bus_id == "00000000:1e:00.0"
    assert (healthy.memory_used, healthy.memory_total) == (513 * MIB, 32768 * MIB)
    assert (healthy.utilization, healthy.power, healthy.temperature) == (0, 55, 32)
    assert (healthy.sm_clock, healthy.memory_clock) == (1500, 1200)
    assert (wedged.index, wedged.sm_clock, wedged.memory_clock) == (5, 25, 33)
    assert (wedged.utilization, wedged.power, wedged.temperature) == (100, 65535, 0)
    assert parse_driver(text) == "3.0.1"


def test_the_table_with_more_rows_and_values_that_are_not_there() -> None:
    first, second = parse_table((DATA / "table_two_chips.txt").read_text())
    assert (first.power, first.temperature, first.utilization) == (None, 41, 12)
    assert first.memory_used == 64 * MIB
    assert (second.index, second.bus_id) == (1, "00000000:4c:00.0")
    assert second.power == 71
    assert (second.memory_used, second.memory_total) == (None, None)
    assert (second.utilization, second.temperature) == (None, None)


def test_the_table_without_its_timestamp_and_with_windows_line_ends() -> None:
    lines = (DATA / "table_3_0_1.txt").read_text().splitlines()[1:]
    assert [each.index for each in parse_table("\r\n".join(lines))] == [4, 5]


def test_csv_with_units_in_the_values() -> None:
    (card,) = parse_csv(
        "index, uuid, name, memory.used, memory.total, utilization.gpu, power.draw, temperature.gpu\n"
        "0, GPU-1f, Iluvatar BI-V100, 257 MiB, 32768 MiB, 3 %, 55.5 W, 32 C\n"
    )
    assert (card.index, card.uuid, card.name) == (0, "GPU-1f", "Iluvatar BI-V100")
    assert (card.memory_used, card.memory_total) == (257 * MIB, 32768 * MIB)
    assert (card.utilization, card.power, card.temperature) == (3, 55.5, 32)
    assert (card.sm_clock, card.memory_clock, card.bus_id) == (None, None, None)


@pytest.mark.parametrize(
    ("header", "value", "expected"),
    [
        ("memory.used", "257", 257 * MIB),
        ("memory.used [MiB]", "257", 257 * MIB),
        ("memory.used [MiB]", "257 MiB", 257 * MIB),
        ("memory.used [GiB]", "2", 2 * 2**30),
        ("memory.used", "1.5 GiB", 3 * 2**29),
        ("memory.used", "257MiB", 257 * MIB),
        ("memory.used", "N/A", None),
        ("memory.used", "[N/A]", None),
        ("memory.used", "", None),
        ("memory.used", "[Unknown Error]", None),
        ("memory.used", "[GPU requires reset]", None),
        ("memory.used", "257 potatoes", None),
        ("memory.used", "-5 MiB", None),
    ],
)
def test_memory_in_all_its_units(header: str, value: str, expected: int | None) -> None:
    (card,) = parse_csv(f"index, {header}\n0, {value}\n")
    assert card.memory_used == expected


def test_half_a_row_is_no_evidence() -> None:
    text = "index, uuid, memory.used\n0, GPU-1f\n1, GPU-2e, 5 MiB\nx, GPU-3d, 5 MiB\n"
    assert [each.index for each in parse_csv(text)] == [1]


def test_noise_before_the_header_is_passed_over() -> None:
    text = "Timestamp    Sun May 14\nWARNING: old driver, mend it\nindex, memory.used\n0, 5 MiB\n"
    assert [each.memory_used for each in parse_csv(text)] == [5 * MIB]


def test_power_by_each_of_its_names() -> None:
    for name in ("power.draw", "gpu.power.draw", "board.power.draw"):
        (card,) = parse_csv(f"index, {name}\n0, 42 W\n")
        assert card.power == 42


def test_the_refused_field_is_named() -> None:
    assert (
        invalid_field('Field "gpu.power.draw" is not a valid field to query.') == "gpu.power.draw"
    )
    assert invalid_field("Field power.draw is not a valid field") == "power.draw"
    assert invalid_field("index, uuid\n0, GPU-field") is None


@given(st.text())
def test_no_text_makes_the_parsers_raise(text: str) -> None:
    parse_csv(text)
    parse_table(text)
    invalid_field(text)
    parse_driver(text)


_CELL = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=12)


@given(st.lists(st.lists(_CELL, max_size=5), max_size=5))
def test_a_good_header_over_any_rows_gives_only_sane_values(rows: list[list[str]]) -> None:
    text = "index, uuid, memory.used, utilization.gpu, power.draw\n"
    text += "\n".join(",".join(row) for row in rows)
    for card in parse_csv(text):
        assert card.index >= 0
        assert card.memory_used is None or card.memory_used >= 0


@given(st.data())
def test_a_table_with_damage_anywhere_never_invents_a_zero(data: st.DataObject) -> None:
    text = (DATA / "table_3_0_1.txt").read_text()
    at = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(1, 60))
    put = data.draw(st.text(max_size=10))
    for card in parse_table(text[:at] + put + text[at + length :]):
        assert card.memory_total != 0 or "0MiB" in text[:at] + put + text[at + length :]

from __future__ import annotations

import json
from pathlib import Path

import pytest

from enginex.errors import SettingError
from enginex.observe.records import StepRecords, check_path
from enginex.observe.step import Step


def test_every_step_is_a_line_with_what_the_simulator_reads(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text('{"earlier":1}\n', encoding="utf-8")
    records = StepRecords(path, tick_s=0.01)
    for number in range(1, 51):
        records.done(Step(number, decode_seqs=2, decode_tokens=2, kv_tokens=40, experts=9), 0.25)
    records.close()
    first, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert first == {"earlier": 1}
    assert [line["number"] for line in lines] == list(range(1, 51))
    needed = {"prefill_tokens", "prefill_work", "decode_seqs", "kv_tokens", "seconds"}
    also = {"cached_tokens", "experts", "graph"}
    assert needed | also <= set(lines[0])
    assert lines[0]["seconds"] == 0.25
    assert lines[0]["graph"] == "none"


def test_lines_are_there_while_the_engine_runs(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    records = StepRecords(path, tick_s=0.01)
    try:
        records.done(Step(1), 0.1)
        for _ in range(500):
            if path.exists() and path.read_text(encoding="utf-8"):
                break
            records._stop.wait(0.01)
        assert json.loads(path.read_text(encoding="utf-8"))["number"] == 1
    finally:
        records.close()


def test_nothing_is_written_without_steps(tmp_path: Path) -> None:
    records = StepRecords(tmp_path / "steps.jsonl", tick_s=0.01)
    records.close()
    assert not (tmp_path / "steps.jsonl").exists()


def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    check_path(tmp_path / "steps.jsonl")
    with pytest.raises(SettingError, match="cannot be written: No such file"):
        check_path(tmp_path / "missing" / "steps.jsonl")
    with pytest.raises(SettingError, match="cannot be written: Is a directory"):
        check_path(tmp_path)

"""The experiment's own arithmetic, without an engine."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree as ET

import pytest

from benchmarks.fidelity_cpu.figure import figure
from benchmarks.fidelity_cpu.predict import OperatorSum, WithGaps, anchored
from benchmarks.fidelity_cpu.setup import RANKS, REPEATS, SEQS, Cell, cells, plans, schedule
from tuner.fidelity.steptime import Batch

PROFILE = {
    "by_tokens": {"1": {"a": 0.001, "b": 0.001}, "9": {"a": 0.005, "b": 0.005}},
    "all_reduce": {"1": 0.001, "9": 0.001},
    "decode_attention": {"100": 0.0003, "300": 0.0005},
    "prefill_attention": {"1": 0.0, "3": 0.0},
}


def test_every_cell_is_measured_equally_often_in_rounds_there_and_back() -> None:
    plan = schedule()
    assert Counter(cell for cell, _ in plan) == dict.fromkeys(cells(), REPEATS)
    first, second = ([c for c, r in plan if r == repeat] for repeat in (0, 1))
    assert first == second[::-1]


def test_the_load_is_always_the_same_and_says_how_long_it_is() -> None:
    warm, load = plans()
    assert load.fingerprint == plans()[1].fingerprint
    assert warm.fingerprint != load.fingerprint
    assert all(turn.expect_prompt_tokens for session in load.sessions for turn in session.turns)


def test_operators_are_added_up_and_read_between_what_was_timed() -> None:
    step = OperatorSum(PROFILE)
    # 5 tokens lie half-way: 6 ms and 1 ms of all-reduce; each sequence has 0.2 ms and 1 us a token.
    assert step.step(Batch(0, 0.0, 5, 1000)) == pytest.approx(0.007 + 5 * 0.0002 + 1000 * 1e-6)
    assert step.growth(Batch(0, 0.0, 5, 1000)) == pytest.approx(5e-6)
    assert WithGaps(step, 0.5).step(Batch(0, 0.0, 1, 0)) == pytest.approx(0.5 + 0.003 + 0.0002)


def test_an_anchor_scales_its_own_layout() -> None:
    said = {cell: 10.0 * cell.mns for cell in cells()}
    real = {cell: [cell.tp * 5.0 * cell.mns] * 2 for cell in cells()}
    found = anchored(said, real)
    assert found == {cell: pytest.approx(cell.tp * 5.0 * cell.mns) for cell in cells()}


def test_the_figure_shows_every_run_and_every_prediction() -> None:
    real = {cell: [100.0 * cell.mns, 110.0 * cell.mns] for cell in cells() if cell != Cell(2, 8)}
    said = {"one": {cell: 50.0 * cell.mns for cell in cells()}, "two": dict.fromkeys(cells(), 7.0)}
    text = figure(real | {Cell(2, 8): []}, said)
    root = ET.fromstring(text)  # noqa: S314 - our own text
    points = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(points) == 2 * (len(RANKS) * len(SEQS) - 1) + 2 * len(RANKS) * len(SEQS)
    assert all(0 <= float(p.get("cy", "-1")) <= 240 for p in points)

from __future__ import annotations

import json

import pytest

from tests.fidelity.tables import REAL, rule, source, surface
from tuner.fidelity.compare import Comparison, compare
from tuner.fidelity.render import as_json, as_markdown, as_text


@pytest.fixture
def tied() -> Comparison:
    asked = rule(question="Does a | isolated profile order | the surface?")
    return compare(surface("p", [0.0] * 12), surface("r", list(REAL)), asked, source("rule.yaml"))


def test_text_says_the_answer_first_and_its_reasons(tied: Comparison) -> None:
    text = as_text(tied)
    assert text.startswith("rejected: Does")
    assert "60.91%" in text
    assert "sha256 " + "0" * 64 in text
    assert "changed 2026-07-16T12:00:00Z, older than both tables" in text


def test_markdown_tables_hold_together(tied: Comparison) -> None:
    text = as_markdown(tied)
    assert "**Rejected.**" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    widths = {line.replace("\\|", "").count("|") for line in rows}
    assert widths == {6, 3}
    assert sum(line.startswith("| top-3") for line in rows) == 1


def test_json_is_plain_and_whole(tied: Comparison) -> None:
    data = json.loads(json.dumps(as_json(tied), allow_nan=False))
    assert data["answer"] == "rejected"
    assert data["figures"]["regret_worst_tie"] == pytest.approx(0.6091, abs=5e-5)
    assert len(data["configurations"]["both"]) == 12
    assert len(data["figures"]["chosen"]) == 12
    assert data["sources"]["rule"]["older_than_tables"] is True
    assert {c["name"]: c["outcome"] for c in data["criteria"]}["regret"] == "failed"

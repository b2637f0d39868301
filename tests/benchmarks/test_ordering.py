from __future__ import annotations

import sys

import pytest

from benchmarks.search import ordering
from tests.trial.proxies import good

pytestmark = pytest.mark.slow


def test_a_row_for_each_proxy_after_one_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ordering, "PROXIES", {"right": good})
    monkeypatch.setattr(sys, "argv", ["ordering", "--studies", "1"])
    ordering.main()
    _, _, none, right = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()
    )
    assert none[:5] == ["none", "0%", "0.0, 0", "0%", "0.0"]
    assert right[0] == "right"
    assert right[1] == "100%"
    # One study: its quartiles are all the same, and its mean is its most.
    for row in (none, right):
        assert len(set(row[5].split(" / "))) == 1
        assert len(set(row[6].split(", "))) == 1
    assert float(right[2].split(",")[0]) > 20

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.fidelity.rule import read_rule


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rule.yaml"
    path.write_text(text)
    return path


def test_an_empty_mapping_asks_for_what_the_gate_asks_for(tmp_path: Path) -> None:
    rule, _ = read_rule(written(tmp_path, "{}"))
    asked = rule.require
    assert (asked.tau_b, asked.regret, asked.p, asked.pairs) == (0.8, 0.05, 0.05, 8)
    assert (rule.better, rule.noise) == ("higher", "repeats")


def test_a_whole_rule(tmp_path: Path) -> None:
    text = """
question: Does the short context order as the long one does?
better: lower
value: ttft
proxy_value: predicted
key: [tp, mns]
noise: 0.02
require: {tau_b: 0.9, regret: 0.03, pairs: 5, top_k: {k: 3, overlap: 0.67}, pair_signs: 0.9, levels: 4}
"""
    path = written(tmp_path, text)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    rule, source = read_rule(path)
    assert rule.key == ("tp", "mns")
    assert rule.require.top_k is not None
    assert rule.require.top_k.k == 3
    assert source.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert source.modified.isoformat() == "2023-11-14T22:13:20+00:00"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "rule.yaml:1: a rule file is a mapping"),
        ("noise: 0.02\ntau: 0.8\n", "rule.yaml:2: tau: extra inputs"),
        ("require:\n  tau_b: 2\n", "rule.yaml:2: require.tau_b: input should be less"),
        ("noise: lots\n", "rule.yaml:1: noise"),
        ("better: bigger\n", "rule.yaml:1: better"),
        ("value: [\n", "rule.yaml:2: this is not YAML"),
        ("value: a\nvalue: b\n", "rule.yaml:2: 'value' stands twice"),
    ],
)
def test_a_bad_rule_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_rule(written(tmp_path, text))


def test_a_missing_rule_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give the path of a rule file"):
        read_rule(tmp_path / "none.yaml")

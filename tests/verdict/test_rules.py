from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.verdict.cases import Case, Wording, load_cases, load_wordings
from tuner.verdict import Evidence, Verdict, judge, read_log
from tuner.verdict.rules import Table, table
from tuner.verdict.signals import SIGNALS

CASES = load_cases()
HITS = [case for case in CASES if case.hit]
NEAR = [case for case in CASES if not case.hit]


@pytest.mark.parametrize("case", HITS, ids=lambda case: case.name)
def test_the_rule_decides_on_its_own_lines(case: Case) -> None:
    reading = read_log(case.lines)
    judgement = judge(Evidence(log=reading))
    assert case.rule in {hit.rule.id for boot in reading.boots for hit in boot.hits}
    assert judgement.verdict == case.verdict
    if case.note:
        assert any(proof.text in line for proof in judgement.notes for line in case.lines)
        return
    assert judgement.rule == case.rule
    assert judgement.evidence[0].line is not None
    assert judgement.evidence[0].text.strip() in case.lines[judgement.evidence[0].line - 1]
    if case.stage is not None:
        assert judgement.stage == case.stage
    if case.violation is not None:
        assert judgement.violation == pytest.approx(case.violation, rel=0.01, abs=0.0005)


@pytest.mark.parametrize("case", NEAR, ids=lambda case: case.name)
def test_the_rule_leaves_near_misses_alone(case: Case) -> None:
    judgement = judge(case.evidence)
    assert judgement.rule != case.rule
    if case.verdict is not None:
        assert judgement.verdict == case.verdict


@pytest.mark.parametrize("wording", load_wordings(), ids=lambda wording: wording.name)
def test_the_same_kinds_in_other_words(wording: Wording) -> None:
    assert judge(Evidence(log=read_log(wording.lines))).verdict in wording.verdicts


def test_every_rule_has_lines_that_it_matches_and_lines_that_it_must_not() -> None:
    rules = {rule.id for rule in table().rules}
    assert rules - {case.rule for case in HITS} == set()
    assert rules - {case.rule for case in NEAR} == set()
    assert {case.rule for case in CASES} - rules == set()


def test_every_verdict_can_be_given() -> None:
    given = {rule.verdict for rule in table().rules} | {rule.verdict for rule in table().signals}
    for rule in table().rules:
        given |= set(rule.by_stage.values()) | set(rule.by_role.values())
    assert given == set(Verdict)


def test_signals_that_rules_ask_for_exist() -> None:
    asked = {name for rule in table().signals for name in (*rule.all, *rule.none)}
    asked |= {name for rule in table().rules for name in rule.none}
    assert asked <= SIGNALS


def test_signal_names_are_all_raised_somewhere() -> None:
    from tuner.verdict import signals

    source = Path(signals.__file__).read_text(encoding="utf-8")
    quoted = re.findall(r'"(\w+)"', source)
    assert {name for name in SIGNALS if quoted.count(name) < 2} <= {
        "differs",
        "ignored",
        "fell_back",
        "not_shown",
    }


def test_patterns_cannot_run_away() -> None:
    # A line of the longest length, of the sort on which careless patterns take quadratic time.
    text = ("out of memory " + "a" * 40 + " (1.0 GiB) ") * 700
    for rule in table().compiled:
        rule.search(text)


def bad_tables() -> Iterator[tuple[str, dict[str, Any]]]:
    kinds = [
        {"id": v.value, "title": "t", "teaches": False, "retry": "none", "advice": "a"}
        for v in Verdict
    ]
    base: dict[str, Any] = {
        "format": 1, "triggers": ["E"], "exits": [], "verdict": kinds,
        "noise": [], "stage": [], "rule": [], "signal": [],
    }  # fmt: skip
    rule = {"id": "a", "rank": "cause", "verdict": "unknown", "match": ["x"]}
    yield "unknown key", {**base, "rules": []}
    yield "unknown key in a rule", {**base, "rule": [{**rule, "matches": ["y"]}]}
    yield "no pattern", {**base, "rule": [{**rule, "match": []}]}
    yield "not a pattern", {**base, "rule": [{**rule, "match": ["("]}]}
    yield "unknown verdict", {**base, "rule": [{**rule, "verdict": "oops"}]}
    yield "two of one name", {**base, "rule": [rule, rule]}
    yield "a verdict without words", {**base, "verdict": kinds[1:]}
    yield "another format", {**base, "format": 2}
    yield "noise that swallows all", {**base, "noise": [{"id": "n"}]}


@pytest.mark.parametrize(("name", "data"), list(bad_tables()), ids=lambda value: str(value)[:30])
def test_a_table_with_a_mistake_is_refused(name: str, data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Table(data)


_BEGIN = "INFO 11-30 10:00:00 llm_engine.py:237] Initializing a {v}LLM engine (v0.9.1) with config: model='/m'"
_LATE = "(EngineCore_0 pid=9) INFO 11-30 10:00:02 [core.py:455] Waiting for init message from front-end."


@pytest.mark.parametrize(
    ("generations", "lines", "hits"),
    [
        (["v0"], [_BEGIN.format(v=""), "ERROR 11-30 10:00:01 x.py:1] boom"], True),
        (["v0"], [_BEGIN.format(v="V1 "), "ERROR 11-30 10:00:01 x.py:1] boom"], False),
        (["v1"], [_BEGIN.format(v=""), "ERROR 11-30 10:00:01 x.py:1] boom"], False),
        (["v1"], [_BEGIN.format(v="V1 "), "ERROR 11-30 10:00:01 x.py:1] boom"], True),
        (["v0", "v1"], [_BEGIN.format(v="V1 "), "ERROR 11-30 10:00:01 x.py:1] boom"], True),
        ([], [_BEGIN.format(v="V1 "), "ERROR 11-30 10:00:01 x.py:1] boom"], True),
        (["v0"], ["ERROR 11-30 10:00:01 x.py:1] boom"], True),  # unknown counts as any
        (["v0"], ["ERROR 11-30 10:00:01 x.py:1] boom", _LATE], False),  # said only afterwards
    ],
)
def test_a_rule_of_one_generation_leaves_the_other_alone(
    generations: list[str], lines: list[str], *, hits: bool
) -> None:
    kinds = [
        {"id": v.value, "title": "t", "teaches": False, "retry": "none", "advice": "a"}
        for v in Verdict
    ]
    rule = {"id": "a", "rank": "cause", "verdict": "unknown", "match": ["boom"]}
    known = Table(
        {
            "format": 1, "triggers": ["boom"], "exits": [], "verdict": kinds, "noise": [],
            "stage": [], "rule": [{**rule, "generations": generations}], "signal": [],
        }
    )  # fmt: skip
    (boot,) = read_log(lines, known).boots
    assert bool(boot.hits) is hits


def test_each_start_in_a_log_has_a_generation_of_its_own() -> None:
    dead = "ERROR 11-30 10:00:01 x.py:1] AsyncEngineDeadError: Background loop has errored already."
    lines = [_BEGIN.format(v=""), dead, _BEGIN.format(v="V1 "), dead]
    starts = ["INFO 11-30 10:00:00 api_server.py:1] vLLM API server version 0.9.1"]
    old, new = read_log([*starts, *lines[:2], *starts, *lines[2:]]).boots
    assert (old.generation, new.generation) == ("v0", "v1")
    assert ["engine-loop-died" in {hit.rule.id for hit in b.hits} for b in (old, new)] == [
        True,
        False,
    ]

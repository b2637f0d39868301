from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.fidelity.compare import compare
from tuner.fidelity.rule import Provenance, Rule
from tuner.fidelity.table import canonical, keyed, level_table, read_table


@dataclass
class Trial:
    params: dict[str, Any]
    metrics: dict[str, Any] | None = None
    created: float = field(default=1_800_000_000.0)
    levels: dict[str, Any] = field(default_factory=dict)
    verdict: str | None = "healthy"
    judgement: dict[str, Any] | None = None


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_csv_and_json_lines_say_the_same(tmp_path: Path) -> None:
    csv = read_table(
        written(tmp_path / "t.csv", "tp,eager,value\n1,true,5\n2.0,False,\n1,true,7\n")
    )
    text = '{"tp": 1.0, "eager": true, "value": 5}\n\n{"tp": 2, "eager": false, "value": null}\n'
    jsonl = read_table(written(tmp_path / "t.jsonl", text + '{"tp":1,"eager":true,"value":7.0}\n'))
    assert keyed(csv, ("tp", "eager"), "value").rows == keyed(jsonl, ("eager", "tp"), "value").rows
    assert keyed(csv, ("tp", "eager"), "value").rows == {
        (("eager", "true"), ("tp", "1")): (5.0, 7.0),
        (("eager", "false"), ("tp", "2")): (),
    }


def test_nested_columns_have_dotted_names(tmp_path: Path) -> None:
    raw = read_table(written(tmp_path / "t.jsonl", '{"cfg": {"a": {"b": 1}}, "res": {"v": 2}}\n'))
    assert raw.columns == ["cfg.a.b", "res.v"]
    assert keyed(raw, ("cfg.a.b",), "res.v").rows == {(("cfg.a.b", "1"),): (2.0,)}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "no rows"),
        ("t.csv", "a,value\n", "no rows"),
        ("t.csv", "a,a\n1,2\n", "two columns"),
        ("t.csv", "a,value\n1\n", "t.csv:2: .*2 cells"),
        ("t.csv", "a,value\n1,2,3\n", "t.csv:2: .*2 cells"),
        ("t.csv", 'a,value\n"1,2\n', "not CSV"),
        ("t.jsonl", "[1]\n", "t.jsonl:1: .*one object"),
        ("t.jsonl", '{"a": 1}\n{\n', "t.jsonl:2: this is not JSON"),
    ],
)
def test_what_is_no_table_is_told(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_table(written(tmp_path / name, text))


def test_a_missing_file_and_bytes_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "b.csv").write_bytes(b"a,value\n\xff,1\n")
    with pytest.raises(UserError, match="UTF-8"):
        read_table(tmp_path / "b.csv")


def test_columns_and_numbers_are_checked(tmp_path: Path) -> None:
    raw = read_table(written(tmp_path / "t.csv", "a,value\n1,fast\n"))
    with pytest.raises(UserError, match="no column 'b'"):
        keyed(raw, ("b",), "value")
    with pytest.raises(UserError, match="'fast' in column 'value' is no number"):
        keyed(raw, ("a",), "value")
    for bad in ("inf", "true"):
        other = read_table(written(tmp_path / "t.csv", f"a,value\n1,{bad}\n"))
        with pytest.raises(UserError, match="no number"):
            keyed(other, ("a",), "value")


@given(st.integers(-(10**9), 10**9))
def test_one_number_has_one_form(number: int) -> None:
    assert canonical(number) == canonical(float(number)) == canonical(f" {number} ") == str(number)


@given(st.one_of(st.text(), st.floats(), st.none(), st.booleans(), st.lists(st.integers())))
def test_any_value_has_a_form(value: object) -> None:
    assert canonical(canonical(value)) == canonical(value)


def test_levels_of_a_study() -> None:
    trials = [
        Trial(
            {"tp": 1},
            {
                "score": 9.0,
                "workloads": {"short": {"figures": {"weighted": 5.0}}, "long": {"figures": {}}},
            },
            levels={"probe": {"score": 4.0}},
        ),
        Trial({"tp": 2}, None),
        Trial({"tp": 1}, {"score": 9.5, "workloads": {}}, created=1_700_000_000.0),
    ]
    key = (("tp", "1"),)
    whole = level_table(trials, "s", "real")
    assert keyed(whole, ("tp",), "value").rows == {key: (9.0, 9.5)}
    assert whole.source.modified.year == 2023
    for level, expected in [("short", (5.0,)), ("probe", (4.0,)), ("long", ())]:
        assert keyed(level_table(trials, "s", level), ("tp",), "value").rows == {key: expected}
    with pytest.raises(UserError, match="levels there: long, probe, real, short"):
        level_table(trials, "s", "none")


def ended(verdict: str, brief: float | None = None, *, teaches: bool = True) -> Trial:
    """A trial without metrics that may have come to something on the brief level before its end."""
    return Trial(
        {"tp": verdict},
        levels={} if brief is None else {"brief": {"score": brief}},
        verdict=verdict,
        judgement={"failed": True, "teaches": teaches},
    )


def rows(trials: list[Trial], level: str) -> dict[str, tuple[float, ...]]:
    found = keyed(level_table(trials, "s", level), ("tp",), "value").rows
    return {key[0][1]: values for key, values in found.items()}


def measured(tp: int, value: float, **more: Any) -> Trial:
    metrics = {"score": value, "tier": "feasible", "workloads": {}, **more}
    return Trial({"tp": tp}, metrics, levels={"brief": {"score": value}})


def test_a_trial_that_failed_has_an_empty_row_on_what_it_did_not_get_through() -> None:
    trials = [
        measured(1, 5.0),
        ended("device_oom_run", 7.0),
        ended("flags_rejected"),
        ended("rejected_by_rule"),
        ended("held_on_level", 2.0),
        ended("clearly_worse", 3.0),
        ended("engine_crash", 4.0, teaches=False),
        ended("cancelled", 4.5),
    ]
    nothing: tuple[float, ...] = ()
    assert rows(trials, "real") == {
        "1": (5.0,),
        "device_oom_run": nothing,
        "flags_rejected": nothing,
        "rejected_by_rule": nothing,
    }
    assert rows(trials, "brief") == {
        "1": (5.0,),
        "device_oom_run": (7.0,),
        "flags_rejected": nothing,
        "rejected_by_rule": nothing,
        "held_on_level": (2.0,),
        "clearly_worse": (3.0,),
        "engine_crash": (4.0,),
        "cancelled": (4.5,),
    }
    with pytest.raises(UserError, match="levels there: brief"):
        level_table(trials[1:], "s", "real")


def test_what_is_of_an_incomplete_population_or_of_a_failed_trial_is_no_value() -> None:
    loads = {"a": {"tier": "incomplete", "figures": {"weighted": 9e5}}}
    loads["b"] = {"tier": "feasible", "figures": {"weighted": 7.0}}
    few = measured(2, 9e5, tier="incomplete", workloads=loads)
    wrong = measured(3, 8e5, workloads={"b": loads["b"]})
    wrong.verdict = "answers_differ"
    trials = [measured(1, 5.0), few, wrong]
    assert rows(trials, "real") == {"1": (5.0,), "2": (), "3": ()}
    assert rows(trials, "a") == {"2": (), "3": ()}
    assert rows(trials, "b") == {"2": (7.0,), "3": ()}


def test_a_level_whose_favourites_die_on_the_real_load_is_not_supported() -> None:
    rule = Rule(key=("tp",))
    before = Provenance("rule", "0" * 64, dt.datetime(2000, 1, 1, tzinfo=dt.UTC))
    trials = [measured(i, 1000.0 * i * f) for i in range(1, 9) for f in (1.0, 1.01)]
    assert answer(trials, rule, before) == "supported"
    trials += [ended("device_oom_run", 90_000.0), ended("engine_crash", 91_000.0)]
    assert answer(trials, rule, before) == "rejected"


def answer(trials: list[Trial], rule: Rule, source: Provenance) -> str:
    brief, real = (level_table(trials, "s", level) for level in ("brief", "real"))
    return str(compare(brief, real, rule, source).answer)

"""Whole studies whose objective is not the weighted score, on the fake server.

Without prefix caching the fake computes more prompt tokens a second, and each request waits longer:
with weights on computed tokens alone the weighted score and the latency want opposite things. The
fake is so slow that its own waits dominate those of the machine.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.world import ENGINE, WORKLOAD, World
from tuner.cli.inspect import _front_lines
from tuner.daemon.view import Views
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.trial.decision import Decision
from tuner.trial.entry import enter_study
from tuner.trial.session import work
from tuner.trial.wishes import Wishes

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engines"), pytest.mark.timeout(300)]

OFF = dict.fromkeys(("cache_hit_rate", "ttft_p90_s", "output_tps_p10"), "off")
CACHING = {"flag": "--enable-prefix-caching", "switch": "pair", "baseline": False}
TALK = {
    **WORKLOAD,
    "conversations": 1,
    "turns": 3,
    "concurrency": 1,
    "turn_tokens": {"min": 500, "max": 500},
    "output_tokens": 2,
    "time_limit": "60s",
}


def world(folder: Path, parameters: dict[str, Any], trials: int, **changes: Any) -> World:
    flags = {**ENGINE["flags"], "--max-num-batched-tokens": 512}
    space = {
        "engine": {**ENGINE, "flags": flags, "deadlines": {"start": "60s", "silence": "60s"}},
        "parameters": parameters,
        "workload": TALK,
        "budget": {"trials": trials},
        **changes,
    }
    return World(folder, space, recipe_env={"FAKE_SPEED": "0.03"}).make()


def run(made: World) -> tuple[list[TrialRow], Decision, str, dict[str, Any]]:
    """The trials of a study that ran to its end, its decision, its report and what is shown of it."""
    with Ledger(made.state, write=True) as ledger:
        row = enter_study(ledger, load_space(made.space), made.space)
        decision = work(ledger, row, watchers=[], wishes=Wishes())
        assert decision is not None
        report = next(made.state.rglob("report.md")).read_text().replace("\\_", "_")
        detail = Views(ledger, None).detail(ledger.study(row.name)).model_dump(mode="json")
        return ledger.trials(row.id), decision, report, detail


def figures(trial: TrialRow) -> dict[str, float]:
    assert trial.metrics is not None
    (load,) = trial.metrics["workloads"].values()
    found: dict[str, float] = load["figures"]
    return found


def test_the_best_goodput_wins_though_another_has_the_best_weighted_score(tmp_path: Path) -> None:
    score = {
        "objective": "goodput_rps",
        "limits": {"ttft_s": 1.0},
        "profile": "own",
        "weights": {"output_tps": 0, "uncached_input_tps": 1, "cached_tps": 0},
        "gates": {**OFF, "success_rate": 1.0, "weighted": 1},
    }
    search = {"startup": 1, "finalists": {"count": 1, "rounds": 1}}
    trials, decision, report, detail = run(
        world(tmp_path, {"caching": CACHING}, trials=2, score=score, search=search)
    )
    off, on = (next(t for t in trials if t.params["caching"] is c) for c in (False, True))
    assert figures(off)["weighted"] > figures(on)["weighted"]
    assert figures(off)["goodput_rps"] < figures(on)["goodput_rps"]
    for trial in (off, on):
        assert trial.score == trial.value == figures(trial)["goodput_rps"]
    assert figures(on)["goodput_share"] == 1
    assert figures(off)["goodput_share"] == pytest.approx(1 / 3)
    assert off.origin is Origin.BASELINE
    assert decision.winner == on.number
    runs = [t for t in trials if t.origin is Origin.REPEAT]
    assert {run.value for run in decision.standings[0].runs} == {t.score for t in runs}
    words = "goodput (req/s), counting requests that keep ttft_s at most 1"
    assert words in report
    assert (detail["objective"], detail["front"]) == (words, None)


def test_of_two_objectives_the_rule_takes_the_winner_from_the_front(tmp_path: Path) -> None:
    score = {
        "objectives": ["uncached_input_tps", "ttft_p90_s"],
        "choose": {"best": "uncached_input_tps", "limit": 1.3},
        "gates": {"success_rate": 1.0, **{k: "off" for k in OFF if k != "ttft_p90_s"}}
        | {"weighted": "off"},
    }
    parameters = {
        "caching": {**CACHING, "baseline": True},
        "moe": {"env": "ENGINEX_MOE_TINY_IMPL", "choices": ["native", "loop"], "baseline": "loop"},
    }
    trials, _, report, detail = run(world(tmp_path, parameters, trials=4, score=score))
    assert len(trials) == 4
    by = {(t.params["caching"], t.params["moe"]): t for t in trials}
    best = by[True, "native"]
    assert [t.feasible for t in trials] == [t.params["caching"] for t in trials]
    assert max((t for t in trials if t.feasible), key=lambda t: t.score or 0) is best
    for trial in trials:
        assert trial.score == trial.value == figures(trial)["uncached_input_tps"]
        assert trial.constraints is not None
        assert (trial.constraints["ttft_p90_s_max"] > 0) is not trial.params["caching"]
    assert figures(by[False, "native"])["uncached_input_tps"] > figures(best)["uncached_input_tps"]
    beyond = by[False, "native"]
    assert [row[0] for row in rows_below(report, "## Two objectives")] == [
        f"{beyond.number}, over the limit",
        f"{best.number}, chosen",
    ]
    assert detail["front"]["chosen"] == best.number
    assert [one["trial"] for one in detail["front"]["trials"]] == [beyond.number, best.number]
    shown = "\n".join(_front_lines(detail))
    assert "TTFT P90 (s) at most 1.3" in shown
    assert "over the rule's limit" in shown


def rows_below(report: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head."""
    lines = report[report.index(heading) :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|--")) + 1
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first:])
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_a_baseline_of_which_no_request_keeps_its_limits_is_said_at_once(tmp_path: Path) -> None:
    score = {
        "objective": "goodput_rps",
        "limits": {"ttft_s": 1e-6},
        "gates": {**OFF, "success_rate": 1.0, "weighted": "off"},
    }
    made = World(tmp_path, {"score": score, "budget": {"trials": 2}}).make()
    heard: list[str] = []
    with Ledger(made.state, write=True) as ledger:
        row = enter_study(ledger, load_space(made.space), made.space)
        decision = work(
            ledger,
            row,
            watchers=[lambda what: heard.append(str(what.data.get("text", "")))],
            wishes=Wishes(),
        )
        trials = ledger.trials(row.id)
    assert [t.score for t in trials] == [0.0, 0.0]
    assert all(t.feasible for t in trials)  # a score is no gate
    assert decision is not None
    assert not decision.clear
    assert sum("the baseline scores 0" in text for text in heard) == 1

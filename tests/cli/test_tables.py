from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from tuner.cli.finish import finish
from tuner.cli.inspect import _front_lines, _shown
from tuner.cli.tables import TrialsTable, levels_table, verdict_text

SHORT: dict[str, Any] = {
    "level": "short", "cost": 12.0, "points": 9, "held": 5, "standing": "agrees", "pairs": 12,
    "tau": 0.9, "bias": 2.5, "spread": 0.03, "retired_because": None,
}  # fmt: skip
REAL: dict[str, Any] = {
    "level": "real", "cost": 90.0, "points": 4, "held": 0, "retired_because": None
}  # fmt: skip


def printed(rows: list[dict[str, Any]]) -> list[str]:
    console = Console(width=160, no_color=True)
    with console.capture() as capture:
        console.print(levels_table(rows))
    return [line.replace("│", " ") for line in capture.get().splitlines() if "│" in line]


def test_a_table_of_levels() -> None:
    short, real = printed([SHORT, REAL])
    assert short.split() == [
        "short",
        "12.0",
        "s",
        "9",
        "5",
        "2.5",
        "±",
        "3%",
        "0.90",
        "12",
        "agrees",
    ]
    assert real.split()[-3:] == ["the", "real", "one"]


def test_a_level_that_was_retired_or_never_measured() -> None:
    gone = {**SHORT, "retired_because": "tau-b 0.1 over 7 pairs is below 0.4"}
    none = {**SHORT, "cost": None, "pairs": 0, "bias": None, "spread": None, "standing": "unproven"}
    first, second = printed([gone, none])
    assert "retired: tau-b 0.1" in first
    assert second.split() == ["short", "9", "5", "0", "unproven"]


def test_a_held_trial_is_marked_with_its_level() -> None:
    held = {"verdict": "held_on_level", "missed": [], "level": "short"}
    assert verdict_text(held) == "[cyan]held_on_level[/] short"
    assert "short" not in verdict_text({**held, "level": None})


def test_what_a_trial_came_to_on_a_level_is_shown_as_no_score() -> None:
    levels = {
        "short": {"score": 1234.5, "seconds": 3.25, "settled": {}},
        "long": {"score": None, "seconds": 9.0, "settled": {"main": "why"}},
    }
    data: dict[str, Any] = {
        "trial": 4, "origin": "search", "stage": "told", "attempt": 1, "history": None, "params": {},
        "deployment": {"argv": [], "env": {}}, "stages": {}, "score": None, "metrics": None, "proxy": [],
        "verdict": "held_on_level",
        "judgement": {
            "failed": True, "title": "t", "evidence": [], "advice": "a", "levels": levels
        },
    }  # fmt: skip
    lines = _shown(data)
    assert "level short: 1,234 in 3.2 s (no score)" in lines
    assert "level long: failed in 9.0 s, ended as it had settled (no score)" in lines
    assert not any(line.startswith("proxy") for line in lines)
    lines = _shown({**data, "proxy": ["an audit: drawn by chance"]})
    assert "proxy:   an audit: drawn by chance" in lines


def test_the_end_of_a_study_shows_its_levels_where_it_has_any() -> None:
    study: dict[str, Any] = {
        "study": "s", "status": "finished", "reason": None, "exit": 0, "delivered": None,
        "decision": {"baseline": 0, "winner": 0, "clear": False, "comparisons": []},
        "levels": [SHORT, REAL], "best": None,
    }  # fmt: skip
    console = Console(width=160, no_color=True)
    with console.capture() as capture:
        assert finish(study, [], console) == 0
    assert "standing" in capture.get()
    with console.capture() as capture:
        finish({**study, "levels": []}, [], console)
    assert "standing" not in capture.get()


def ended(**study: Any) -> str:
    whole = {"study": "s", "status": "finished", "reason": None, "exit": 0, "delivered": None}
    whole |= {"best": None}
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        finish({**whole, **study}, [], console)
    return capture.get()


def test_the_limit_that_ended_a_search_is_said_with_what_raises_it() -> None:
    stands = {"baseline": 0, "winner": 0, "clear": False, "comparisons": []}

    def last(**over: Any) -> str:
        return ended(decision=stands, search_over={"trials": 7, **over}).splitlines()[-1]

    said = last(at=["trials", "wall"], text="the search ended at its limit of trials: 4 of 4")
    assert said == (
        "The search ended at its limit of trials: 4 of 4. "
        "More: tuner resume s --trials N --wall TIME"
    )
    nothing = last(at=[], text="the search ended: every point of the space was tried")
    assert nothing == "The search ended: every point of the space was tried."
    assert last() == "The search ended after 7 trials."  # by a tuner that did not say more
    assert "search" not in ended(decision=stands, search_over=None)


def test_a_better_score_that_nobody_measured_in_turns_is_not_denied() -> None:
    stands = {"baseline": 0, "winner": 0, "clear": False, "comparisons": []}
    for best in (None, {"trial": 0, "score": 9.0}):
        assert "The baseline stands: nothing scored above it." in ended(decision=stands, best=best)
    said = ended(decision=stands, best={"trial": 7, "score": 9.0})
    assert "nothing scored above" not in said
    assert "no finalist was measured in turns with it. Trial 7 scored best in the search" in said
    assert "`tuner compare s 0 7` measures the two" in said


def test_the_end_is_said_in_words_alone() -> None:
    found = {
        "number": 3, "answer": "better", "ratio": 1.1, "low": 1.05, "high": 1.2, "broken": None,
        "confidence": 0.95, "runs": [1, 2, 3, 4],
    }  # fmt: skip
    won = {"winner": 3, "clear": True, "comparisons": [found]}
    assert ended(decision=won).startswith(
        "Trial 3 wins: +10.0% against the baseline (95 % interval"
    )
    assert ended(decision={**won, "clear": False}).startswith(
        "No clear winner: finalist 3 measured"
    )
    broken = {**found, "ratio": None, "broken": "trial 9: [/a] :bug:"}
    said = ended(decision={**won, "comparisons": [broken]})
    assert said.endswith("failed when it was repeated (trial 9: [/a] :bug:).\n")
    reason = "no file [/models] :bug:"
    said = ended(decision=None, status="failed", exit=1, reason=reason)
    assert said == f"s: failed: {reason}\n"


LONG = "max_num_batched_tokens"


def trial(number: int, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "trial": number, "origin": "search", "repeats": None, "stage": "told", "attempt": 1,
        "verdict": "healthy", "params": {LONG: 512, "moe": "loop"}, "score": 1000.0 + number,
        "feasible": True, "seconds": 64.0, "missed": [], "history": None, "level": None,
        "output_tps": 60.5, "ttft_p90_s": 2.924,
    }  # fmt: skip
    return {**base, **changes}


TRIALS = [
    trial(0, origin="baseline"),
    trial(1, params={LONG: 4096, "moe": "bmm", "a": 1}, score=21960.0, output_tps=146.1),
    trial(2, verdict="memory_kv_space", score=None, output_tps=None, ttft_p90_s=None),
    trial(3, missed=["ttft_p90_s", "output_tps_p10"], feasible=False),
    trial(4, origin="repeat", repeats=1, history="max_num_seqs is no parameter any more"),
    trial(
        5,
        verdict=None,
        stage="starting",
        attempt=0,
        score=None,
        params={LONG: 512},
        output_tps=None,
        ttft_p90_s=None,
    ),
]


def table(width: int, trials: list[dict[str, Any]] = TRIALS) -> list[str]:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(TrialsTable(trials, winner=1))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_on_a_narrow_screen_the_point_stands_below_its_trial() -> None:
    assert table(80) == [
        "trial   score  tok/s  TTFT P90 s      time  verdict",
        "    0   1,000  60.50       2.924  1 m 04 s  healthy",
        "    baseline: max_num_batched_tokens=512 moe=loop",
        "  1 ◀  21,960  146.1       2.924  1 m 04 s  healthy",
        "    max_num_batched_tokens=4096 moe=bmm a=1",
        "    2                             1 m 04 s  memory_kv_space",
        "    as the baseline",
        "    3   1,003  60.50       2.924  1 m 04 s  healthy",
        "    misses ttft_p90_s, output_tps_p10",
        "    as the baseline",
        "    4   1,004  60.50       2.924  1 m 04 s  healthy",
        "    max_num_seqs is no parameter any more",
        "    again 1: as the baseline",
        "    5                                       starting",
        "    no moe",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 119, 120, 160, 200])
def test_no_line_is_wider_than_the_screen_and_no_name_is_torn_apart(width: int) -> None:
    many = {f"{LONG}_{n}": 4096 for n in range(9)}
    lines = table(width, [*TRIALS, trial(6, params=many)])
    assert max(map(len, lines)) <= width
    whole = " ".join(lines)
    assert all(f"{name}=4096" in whole for name in many)
    assert "misses ttft_p90_s" in whole


def test_a_wide_screen_is_used() -> None:
    (line,) = (each for each in table(160) if " 3 " in each)
    assert "healthy misses ttft_p90_s, output_tps_p10" in line
    assert "again 1: as the baseline" in " ".join(table(160))


def test_trials_without_figures_and_odd_texts_are_shown_all_the_same() -> None:
    odd = trial(0, params={"x": "[red]not markup[/]"}, origin="baseline", history=None)
    del odd["output_tps"], odd["ttft_p90_s"]
    for width in (80, 160):
        assert "[red]not markup[/]" in " ".join(table(width, [odd]))
    assert table(80, []) == ["trial  score  tok/s  TTFT P90 s  time  verdict"]


def test_the_front_of_two_objectives_is_shown_with_what_the_rule_chose() -> None:
    names = ["output_tps", "ttft_p90_s"]
    trials = [
        {"trial": 7, "figures": dict(zip(names, (120.0, 4.0), strict=True)), "score": 120.0, "kept": False},
        {"trial": 3, "figures": dict(zip(names, (99.5, 1.5), strict=True)), "score": 99.5, "kept": True},
    ]  # fmt: skip
    front = {"objectives": names, "rule": "r", "trials": trials, "chosen": 3}
    assert _front_lines({"objective": "r", "front": front}) == [
        "  score: r",
        "",
        "no trial beats these in both objectives:",
        "  trial  output_tps  ttft_p90_s  score",
        "  7           120.0       4.000  120.0  over the rule's limit",
        "  3           99.50       1.500  99.50                 chosen",
    ]
    assert _front_lines({"objective": "weighted score", "front": None}) == []


def test_a_score_below_ten_keeps_its_digits() -> None:
    trial: dict[str, Any] = {
        "trial": 0, "score": 1.8342, "feasible": True, "origin": "baseline", "params": {},
        "seconds": 2.0, "attempt": 1, "verdict": "healthy", "missed": [], "level": None,
    }  # fmt: skip
    console = Console(width=160, no_color=True)
    with console.capture() as capture:
        console.print(TrialsTable([trial]))
    assert "1.834" in capture.get()

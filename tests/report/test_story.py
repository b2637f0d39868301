from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from tests.report.conftest import decision, measured
from tests.trial.factory import trial
from tuner.report.blocks import Heading, Picture
from tuner.report.markdown import markdown
from tuner.report.material import Material, family_of
from tuner.report.story import pictures, story
from tuner.score.objective import Objective
from tuner.score.pareto import Objectives
from tuner.store.rows import Event, Origin
from tuner.verdict.families import Family


def text_of(material: Material) -> str:
    return markdown(story(material))


def test_the_conclusion_comes_first(went_well: Material) -> None:
    lines = text_of(went_well).splitlines()
    assert lines[0] == "# Study tests"
    assert (
        lines[2]
        == "**Trial 1 wins: +50.0 % against the baseline (95 % interval +40.0 % to +60.0 %).**"
    )
    assert "seqs=8 moe=native, without moe_max" in lines[4]


def test_all_that_a_careful_engineer_writes_down(went_well: Material) -> None:
    headings = [b.text for b in story(went_well) if isinstance(b, Heading) and b.level == 2]
    assert headings == [
        "Baseline and best",
        "How the search went",
        "Time and machine",
        "How much was noise",
        "What failed, and the proof",
        "What to try next",
        "Question and method",
        "Machine and engine",
        "Every trial",
        "Course of the work",
        "Again",
    ]
    names = [b.name for b in story(went_well) if isinstance(b, Picture)]
    assert names == ["intervals", "scores", "pareto", "importance", "stages", "machine"]


def test_no_clear_winner_is_said_so(went_well: Material) -> None:
    text = text_of(replace(went_well, decision=decision(0, low=0.9)))
    assert "**No clear winner.**" in text
    assert "wins" not in text
    assert "give it more rounds" in text


def test_a_baseline_that_stands(went_well: Material) -> None:
    alone = replace(
        went_well,
        trials=went_well.trials[:1],
        decision={"baseline": 0, "winner": 0, "clear": False, "comparisons": []},
    )
    assert "**The baseline stands.** None of 1 trials" in text_of(alone)
    more = replace(alone, trials=went_well.trials)
    text = text_of(more)
    assert (
        "**The baseline stands.** No finalist was measured in turns with it. Trial 1 scored" in text
    )
    assert "None of" not in text
    assert "`tuner compare tests 0 1` measures" in text


def test_a_finalist_that_broke_is_named(went_well: Material) -> None:
    found = decision(0)
    found["comparisons"][0] |= {"ratio": None, "broken": "trial 5: host_oom"}
    assert "finalist 1: trial 5: host\\_oom" in text_of(replace(went_well, decision=found))


def test_a_study_that_goes_on(went_well: Material) -> None:
    running = replace(
        went_well,
        study=replace(went_well.study, status="running", ended=None),
        trials=[*went_well.trials[:3], trial(3, verdict=None, feasible=None)],
        decision=None,
    )
    text = text_of(running)
    assert "**No decision yet.** The study is running." in text
    assert "The best so far is trial 1" in text


def test_an_empty_study_has_a_report() -> None:
    from tests.report.conftest import study

    text = text_of(Material(study(status="queued"), [], None))
    assert "Nothing was measured yet." in text


def test_every_picture_is_well_formed(went_well: Material) -> None:
    for name, text in pictures(story(went_well)).items():
        assert name.endswith(".svg")
        ET.fromstring(text)  # noqa: S314 - our own picture
        assert "nan" not in text


def test_hints_name_the_edge_and_the_cause(went_well: Material) -> None:
    text = text_of(went_well)
    assert "`seqs` is at its upper end (8)" in text
    crowd = [
        *went_well.trials,
        *[
            replace(went_well.trials[3], number=20 + n, params={"seqs": 64, "moe": "loop"})
            for n in range(4)
        ],
    ]
    crowd[3] = replace(crowd[3], params={"seqs": 64, "moe": "loop"})
    assert "all of them, and no other, had `seqs=64`" in text_of(replace(went_well, trials=crowd))


def test_a_baseline_value_at_an_end_is_no_hint_unless_it_is_known_to_be_good(
    went_well: Material,
) -> None:
    values = {0: 4, 1: 4, 2: 9}
    trials = [
        replace(t, params={**t.params, "kv": values.get(t.number, 4)}) for t in went_well.trials
    ]
    said = "`kv` is at its lower end (4)"
    assert said not in text_of(replace(went_well, trials=trials))
    worse = replace(trials[1], number=20, score=700.0, params={**trials[1].params, "kv": 9})
    assert said in text_of(replace(went_well, trials=[*trials, worse]))


def test_failures_of_one_kind_stand_together(went_well: Material) -> None:
    again = replace(went_well.trials[3], number=20)
    text = text_of(replace(went_well, trials=[*went_well.trials, again]))
    assert text.count("### Title of host\\_oom (2 trials)") == 1
    assert text.count("ask for less") == 1
    assert text.count("Killed process 123") == 2


def test_noise_comes_from_points_that_were_measured_twice(went_well: Material) -> None:
    assert "6 degrees of freedom" not in text_of(went_well)
    assert "4 degrees of freedom" in text_of(went_well)
    once = replace(went_well, trials=went_well.trials[:3], decision=None)
    assert "No point was measured twice" in text_of(once)


def test_thousands_of_trials_stay_readable(went_well: Material) -> None:
    many = [
        measured(n, 1000.0 + n, origin=Origin.SEARCH if n else Origin.BASELINE, params={"seqs": n})
        for n in range(5000)
    ]
    material = replace(went_well, trials=many, decision=None, durations={}, stages={})
    files = pictures(story(material))
    assert len(files["report-scores.svg"]) < 500_000
    text = text_of(material)
    assert "The 1,000 best of 5,000 trials" in text
    assert len(text) < 200_000


def test_what_did_nothing_is_said_with_its_reason(went_well: Material) -> None:
    found = {"name": "moe_max", "value": 8, "baseline": 4, "reason": "no small step", "told": True}
    event = Event(2, 1, None, "simpler", 60.0, {"of": 1, "params": {}, "inert": [found]})
    text = text_of(replace(went_well, events=[*went_well.events, event]))
    assert "`moe_max` (8 in finalist 1, 4 in the baseline): no small step, as the engine" in text
    assert "finalist 1: moe\\_max did nothing" in text


def test_families_of_trials(went_well: Material) -> None:
    found = [family_of(t) for t in went_well.trials[:4]]
    assert found == [Family.GOOD, Family.GOOD, Family.MISSED, Family.MEMORY]
    assert family_of(trial(9, verdict=None)) is Family.OPEN
    assert family_of(trial(9, verdict="interrupted", score=None)) is Family.OUTSIDE


def test_levels_are_said_with_what_they_left_out_and_showed(went_well: Material) -> None:
    short = {
        "level": "short", "leaves_out": "long prompts", "cost": 12.0, "points": 9, "held": 5,
        "sigma": 0.02, "standing": "agrees", "why": "tau-b 0.90 over 12 pairs", "pairs": 12,
        "tau": 0.9, "regret": 0.01, "bias": 2.5, "spread": 0.03, "retired_because": None,
    }  # fmt: skip
    real = {"level": "real", "leaves_out": "", "cost": 90.0, "points": 4, "held": 0, "sigma": 0.01,
            "retired_because": None}  # fmt: skip
    rows = [short, {**short, "level": "other", "retired_because": "it lied"}, real]
    said = Event(99, 1, None, "levels", 0.0, {"rows": rows})
    held = trial(
        7,
        verdict="held_on_level",
        judgement={"failed": True, "level": "short", "verdict": "held_on_level"},
        feasible=False,
    )
    assert "Cheaper levels" not in text_of(went_well)
    text = text_of(
        replace(went_well, events=[*went_well.events, said], trials=[*went_well.trials, held])
    )
    row = next(line for line in text.splitlines() if line.startswith("| short"))
    for part in ("long prompts", "2.5 ± 3%", "2.0%", "0.90 over 12 pairs", "agrees"):
        assert part in row
    assert "retired: it lied" in text
    assert "held\\_on\\_level" in text or "`held_on_level` short" in text
    assert "What failed" in text
    assert "title of held" not in text


def test_a_proxy_in_the_shadow_is_said_with_what_it_would_have_been(went_well: Material) -> None:
    shown = {"points": 9, "pairs": 20, "tau": 0.91, "regret": 0.01, "error": 0.04, "why": "enough"}
    found = {
        "assessment": shown, "tau_interval": [0.8, 0.97], "would_be": "on", "opened_after": 8,
        "closed_because": None,
    }  # fmt: skip

    def text(**more: object) -> str:
        said = Event(99, 1, None, "proxy_report", 0.0, {**found, **more})
        return text_of(replace(went_well, events=[*went_well.events, said]))

    assert "proxy" not in text_of(went_well)
    assert "0.91 (0.80 to 0.97), 20 pairs" in text()
    assert "would have been trusted after 8 trials" in text()
    assert "shut out: it lied" in text(would_be="disabled", closed_because="it lied")
    assert "not have been trusted: enough" in text(would_be="shadow", tau_interval=None)


def test_a_proxy_that_acts_is_said_with_what_it_did_and_why_it_was_shut_out(
    went_well: Material,
) -> None:
    shown = {"points": 9, "pairs": 20, "tau": 0.91, "regret": 0.01, "error": 0.04, "why": "enough"}
    found = {
        "assessment": shown, "tau_interval": None, "mode": "disabled", "acts": True, "opened_after": 8,
        "closed_after": 15, "closed_because": "trial 14, which it had deferred, is 9.0% better",
        "audits": 1, "deferred": 12, "deferred_never_run": 3,
    }  # fmt: skip
    gate = [
        (7, {"what": "opened", "text": "the proxy orders the search from now on"}),
        (9, {"what": "ordered", "text": "put first by the proxy", "point": "p"}),
        (14, {"what": "audit", "text": "an audit: drawn by chance", "point": "q"}),
        (14, {"what": "closed", "text": "the proxy is shut out on this stack"}),
    ]

    def text(**more: object) -> str:
        said = [Event(80 + n, 1, at, "gate", 0.0, data) for n, (at, data) in enumerate(gate)]
        said.append(Event(99, 1, None, "proxy_report", 0.0, {**found, **more}))
        return text_of(replace(went_well, events=[*went_well.events, *said]))

    whole = text()
    assert "A proxy that may order the search" in whole
    assert "12, 3 of them never ran" in whole
    assert "after 15 trials: trial 14, which it had deferred, is 9.0% better" in whole
    assert "trial 14: an audit: drawn by chance" in whole
    assert "put first by the proxy" not in whole  # a line a trial would bury the others
    assert "it was trusted still" in text(closed_because=None, mode="on")
    assert "it was not trusted any more: enough" in text(closed_because=None, mode="shadow")
    assert "never trusted" in text(opened_after=None, closed_because=None)


def test_two_objectives_are_said_with_their_front(went_well: Material) -> None:
    pair = Objectives("output_tps", "ttft_p90_s", best="output_tps", limit=15.0)
    figures = {number: {"output_tps": 10.0 + number, "ttft_p90_s": 12.5} for number in (1, 2)}
    front = {
        "trials": [
            {"trial": 2, "figures": figures[2], "score": 12.0, "kept": False},
            {"trial": 1, "figures": figures[1], "score": 11.0, "kept": True},
        ],
        "chosen": 1,
    }
    asked = replace(went_well, objective=Objective("output_tps", pair=pair), front=front)
    text = text_of(asked).replace("\\_", "_")
    assert "The score is output TPS, aggregate (tok/s), with TTFT P90 (s) at most 15." in text
    assert "| 2, over the limit | 12 | 12.5 | 12 |" in text
    assert "| 1, chosen | 11 | 12.5 | 11 |" in text
    assert "output TPS, aggregate against TTFT P90." in text
    assert "The score is" not in text_of(went_well)


def test_what_would_raise_the_weighted_score_is_no_advice_for_another_objective(
    went_well: Material,
) -> None:
    gains = {"gain": 0.1, "prefill": 0.05, "decode": 0.01, "cache": 0.0}
    known = replace(went_well, loads={1: {"main": {"gains": gains}}})
    assert "has most to gain from faster prefill" in text_of(known)
    asked = text_of(replace(known, objective=Objective("output_tps")))
    assert "has most to gain" not in asked
    assert "Where the weighted score comes from" in asked


def test_the_picture_of_two_objectives_has_their_axes(went_well: Material) -> None:
    pair = Objectives("ttft_p90_s", "wall_s", balance=0.5)
    asked = replace(went_well, objective=Objective("ttft_p90_s", pair=pair))
    found = pictures(story(asked))["report-pareto.svg"]
    assert "wall time, s (less is better)" in found
    assert "TTFT P90, s (less is better)" in found
    usual = pictures(story(went_well))["report-pareto.svg"]
    assert "output TPS, aggregate, tok/s (more is better)" in usual


def test_a_declared_objective_stands_first_in_the_comparison(went_well: Material) -> None:
    asked = replace(went_well, objective=Objective("wall_s"))
    rows = [line for line in text_of(asked).splitlines() if line.startswith("| wall time, s")]
    assert rows[0].startswith("| wall time, s | 10.0 | 10.0 |")

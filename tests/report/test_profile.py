from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trial.factory import trial
from tuner.report.blocks import Picture
from tuner.report.html import html
from tuner.report.markdown import markdown
from tuner.report.material import Material, StepTimes, mean_figure
from tuner.report.sections.profile import profiles, stage_rows, summary
from tuner.report.story import story
from tuner.store.rows import Origin

DECODE = {
    "steps": 100,
    "stages": {
        "gdn": {"total_s": 0.25, "count": 300},
        "routed_experts": {"total_s": 0.75, "count": 400},
    },
}
PREFILL = {"steps": 2, "stages": {"attention": {"total_s": 0.5, "count": 2}}}


def profiled(material: Material, **more: Any) -> Material:
    """A study with a profile of its winner, in a run of its own."""
    env = {"ENGINEX_PROFILE_SYNC": "1"} if more.get("waits") else {}
    run = trial(9, origin=Origin.PROFILE, repeats=1, feasible=None, deployment={"env": env})
    trials = [*material.trials, replace(run, verdict=more.get("verdict", "healthy"))]
    found = more.get("found", {1: StepTimes({"prefill": PREFILL, "decode": DECODE}, 9)})
    return replace(material, trials=trials, profiles=found)


def text_of(material: Material) -> str:
    return markdown(story(material)).replace("\\", "")


def test_the_table_has_prefill_and_decode_apart(went_well: Material) -> None:
    text = text_of(profiled(went_well))
    assert "### Trial 1, decode: 100 steps in 1.00 s, 10.00 ms each" in text
    assert "### Trial 1, prefill: 2 steps in 0.50 s, 250.00 ms each" in text
    assert "| stage | total, ms | mean, ms | count | share |" in text
    rows = [line for line in text.splitlines() if line.startswith(("| routed", "| gdn", "| att"))]
    assert rows == [
        "| routed_experts | 750.0 | 1.875 | 400 | 75.0% |",
        "| gdn | 250.0 | 0.833 | 300 | 25.0% |",
        "| attention | 500.0 | 250.000 | 2 | 100.0% |",
    ]
    assert "Timed in trial 9, a run of its own after the search" in text
    assert "waited for the device" not in text
    assert "waited for the device" in text_of(profiled(went_well, waits=True))


def test_the_run_that_timed_the_stages_is_named_and_not_the_last_one(went_well: Material) -> None:
    found = profiled(went_well)
    env = {"env": {"ENGINEX_PROFILE_SYNC": "1"}}
    failed = trial(
        12, origin=Origin.PROFILE, repeats=1, verdict="engine_crash", feasible=None, deployment=env
    )
    text = text_of(replace(found, trials=[*found.trials, failed]))
    assert "Timed in trial 9, a run of its own" in text
    assert "waited for the device" not in text
    assert "Trial 12, a profile of trial 1, found nothing: `engine_crash`." in text


def test_what_the_trials_own_engine_timed_is_said_so(went_well: Material) -> None:
    own = {1: StepTimes({"decode": DECODE})}
    text = text_of(profiled(went_well, found=own, verdict="engine_crash"))
    assert "The engine of the trial itself was told to time its stages." in text
    assert "Timed in trial" not in text
    assert "Trial 9, a profile of trial 1, found nothing: `engine_crash`." in text


def test_the_picture_has_a_bar_for_each_stage_and_kind(went_well: Material) -> None:
    (picture,) = [b for b in profiles(profiled(went_well)) if isinstance(b, Picture)]
    assert picture.name == "profile-1"
    text = picture.svg.file(picture.says)
    ET.fromstring(text)  # noqa: S314 - our own
    for title in ("routed_experts: 75.0% of decode", "attention: 100.0% of prefill"):
        assert title in text
    page = html(story(profiled(went_well)), title="t", made="m")
    assert "routed_experts: 75.0% of decode" in page


def test_without_a_profile_nothing_is_said_of_it(went_well: Material) -> None:
    assert list(profiles(went_well)) == []
    empty = replace(went_well, profiles={0: StepTimes({"decode": {"steps": 0, "stages": {}}})})
    assert not [b for b in profiles(empty) if isinstance(b, Picture)]


def test_a_profile_that_found_nothing_is_said_so(went_well: Material) -> None:
    text = text_of(profiled(went_well, found={}, verdict="engine_crash"))
    assert "Trial 9, a profile of trial 1, found nothing: `engine_crash`." in text


def test_a_profile_is_no_score(went_well: Material) -> None:
    with_it = profiled(went_well)
    drawn = {b.name: b for b in story(with_it) if isinstance(b, Picture)}
    assert "trial 9" not in drawn["scores"].svg.file("")
    assert mean_figure(with_it, 1, "weighted") == mean_figure(went_well, 1, "weighted")
    assert "profile of 1" in text_of(with_it)
    assert "None of" not in text_of(with_it)


def test_foreign_names_do_no_harm(harmful: Callable[[str], Material]) -> None:
    page = html(story(harmful("<script>alert(1)</script>")), title="t", made="m")
    assert "Where a step spends its time" in page
    assert "<script>alert(1)" not in page


@given(
    st.dictionaries(
        st.text(st.characters(codec="ascii"), min_size=1, max_size=9),
        st.tuples(st.floats(0, 1e6), st.integers(0, 10**6)),
        max_size=9,
    )
)
def test_shares_add_up(stages: dict[str, tuple[float, int]]) -> None:
    named = {n: {"total_s": total, "count": count} for n, (total, count) in stages.items()}
    rows = stage_rows({"steps": 3, "stages": named})
    assert [r.total_s for r in rows] == sorted((t for t, _ in stages.values()), reverse=True)
    whole = sum(t for t, _ in stages.values())
    assert sum(r.share for r in rows) == pytest.approx(1.0 if whole > 0 else 0.0)
    assert summary("decode", {"steps": 3, "stages": named}).startswith("decode: 3 steps in ")

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginex import versions
from enginex.errors import SettingError, UntestedEngine
from enginex.settings import Settings, read


def test_nothing_set_asks_for_nothing() -> None:
    assert read({"PATH": "/bin", "VLLM_PLUGINS": "x"}) == Settings()
    assert not Settings().active


def test_values_are_read() -> None:
    asked = read(
        {"ENGINEX_MOE_TINY_IMPL": "bmm", "ENGINEX_MOE_TINY_MAX": "8", "ENGINEX_ALLOW_UNTESTED": "1"}
    )
    assert asked == Settings(moe=True, moe_impl="bmm", moe_max=8, allow_untested=True)
    assert asked.active


def test_what_only_looks_is_asked_for_by_itself() -> None:
    asked = read({"ENGINEX_NUMERIC_WATCH": "1", "ENGINEX_NUMERIC_WATCH_EVERY": "8"})
    assert asked == Settings(watch=True, watch_every=8)
    assert asked.active
    assert asked.observes
    assert not asked.moe
    profiled = {
        "ENGINEX_PROFILE_DECODE": "1",
        "ENGINEX_PROFILE_EVERY": "5",
        "ENGINEX_PROFILE_SYNC": "1",
    }
    assert read(profiled) == Settings(profile=True, profile_every=5, profile_sync=True)
    assert read({"ENGINEX_STEP_RECORDS": "s.jsonl"}) == Settings(step_records="s.jsonl")
    assert not read({"ENGINEX_MOE_TINY_IMPL": "loop"}).observes


def test_the_limit_alone_only_watches() -> None:
    assert read({"ENGINEX_MOE_TINY_MAX": "8"}) == Settings(moe=True, moe_impl="native", moe_max=8)


def test_allowing_untested_versions_alone_asks_for_nothing() -> None:
    assert not read({"ENGINEX_ALLOW_UNTESTED": "1"}).active


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"ENGINEX_MOE_TINY_IMPL": "lopp"},
            r"ENGINEX_MOE_TINY_IMPL='lopp' is not one of native, loop.*'loop'\?",
        ),
        ({"ENGINEX_MOE_TINY_IMPL": "LOOP"}, "did you mean 'loop'"),
        ({"ENGINEX_MOE_TINY_IMPL": ""}, "ENGINEX_MOE_TINY_IMPL='' is not one of"),
        (
            {"ENGINEX_MOE_TINY_IMP": "loop"},
            "ENGINEX_MOE_TINY_IMP is not .*did you mean 'ENGINEX_MOE_TINY_IMPL'",
        ),
        (
            {"ENGINEX_ZZZZ": "1"},
            "ENGINEX_ZZZZ is not a variable of enginex; it knows ENGINEX_MOE_TINY_IMPL",
        ),
        ({"ENGINEX_MOE_TINY_MAX": "-1"}, "ENGINEX_MOE_TINY_MAX='-1' is not a whole number"),
        ({"ENGINEX_MOE_TINY_MAX": "4.0"}, "is not a whole number"),
        ({"ENGINEX_MOE_TINY_MAX": " 4"}, "is not a whole number"),
        ({"ENGINEX_MOE_TINY_MAX": "9999999999"}, "is not a whole number from 0 to 1048576"),
        (
            {"ENGINEX_MOE_TINY_IMPL": "auto"},
            "'auto' needs a policy file; name it in ENGINEX_MOE_POLICY",
        ),
        (
            {"ENGINEX_MOE_POLICY": "p.json"},
            "ENGINEX_MOE_POLICY does nothing unless ENGINEX_MOE_TINY_IMPL='auto'",
        ),
        ({"ENGINEX_MOE_HUGE_PAGES": "on"}, "ENGINEX_MOE_HUGE_PAGES='on' is not one of 0, 1"),
        (
            {"ENGINEX_NUMERIC_WATCH_EVERY": "8"},
            "ENGINEX_NUMERIC_WATCH_EVERY does nothing unless ENGINEX_NUMERIC_WATCH='1'",
        ),
        (
            {"ENGINEX_PROFILE_DECODE": "0", "ENGINEX_PROFILE_SYNC": "1"},
            "ENGINEX_PROFILE_SYNC does nothing unless ENGINEX_PROFILE_DECODE='1'",
        ),
        (
            {"ENGINEX_PROFILE_DECODE": "1", "ENGINEX_PROFILE_EVERY": "0"},
            "ENGINEX_PROFILE_EVERY='0' is not a whole number from 1 to",
        ),
        ({"ENGINEX_STEP_RECORDS": " "}, "ENGINEX_STEP_RECORDS is empty"),
        ({"ENGINEX_ALLOW_UNTESTED": "yes"}, "ENGINEX_ALLOW_UNTESTED='yes' is not one of 0, 1"),
    ],
)
def test_mistakes_are_refused_with_the_mend(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        read(environ)


@given(st.text())
def test_any_limit_is_a_number_or_refused_in_one_line(text: str) -> None:
    refused = None
    try:
        asked = read({"ENGINEX_MOE_TINY_MAX": text})
    except SettingError as error:
        refused = str(error)
    if refused is None:
        assert str(asked.moe_max) == (text.lstrip("0") or "0")
    else:
        assert "\n" not in refused


@pytest.mark.parametrize(
    "version", ["0.32.0", "0.32.1", "0.32", "0.32.0+cpu", "0.6.3", "0.6.3.post1+corex"]
)
def test_tested_versions_pass(version: str) -> None:
    versions.check(version, allow_untested=False)


@pytest.mark.parametrize("version", ["0.31.9", "0.320.0", "0.6.30", "0.6.4", "1.0", "dev"])
def test_other_versions_are_refused_unless_allowed(version: str) -> None:
    with pytest.raises(UntestedEngine, match=f"this is {version}; unset the ENGINEX_ variables"):
        versions.check(version, allow_untested=False)
    versions.check(version, allow_untested=True)

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.spec.conftest import Build
from tuner.errors import SpaceError
from tuner.spec import Context, SearchSpace, describe, difference


def test_what_is_left_out_has_defaults(build: Build) -> None:
    quality = build("").quality
    assert (quality.suite, quality.answers.match, quality.probes) == ("core", "distance", {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{suite: ful}", "quality.suite must be 'core' or 'full' or 'off'"),
        ("{probes: {n2: off}}", "quality.probes.n2 must be 'chat' or"),
        ("{probes: {n_2: never}}", "quality.probes.n_2 must be 'required' or"),
        ("{suite: off, probes: {n_2: off}}", "probes do nothing with suite: off"),
        ("{answers: {match: exact, tolerance: 0.1}}", "tolerance does nothing with match: exact"),
        ("{answers: {match: off, tokens: 4}}", "tokens does nothing with match: off"),
        ("{answers: {match: distance, first: 4}}", "first does nothing with match: distance"),
        ("{answers: {match: first, first: 9, tokens: 8}}", "only 8 tokens are asked for"),
        ("{answers: {tolerance: 0.0}}", "must be above 0"),
        ("{timeout: 0}", "a timeout of no time"),
        ("{repetition: 2.0}", "at most 1"),
        ("{strict: true}", "unknown key quality.strict"),
    ],
)
def test_mistakes_are_told_with_their_line(build: Build, text: str, words: str) -> None:
    with pytest.raises(SpaceError) as caught:
        build(f"study: test\nquality: {text}")
    assert words in str(caught.value)
    assert caught.value.line == 2


def test_it_is_part_of_the_question(build: Build) -> None:
    plain, full = build(""), build("quality: {suite: full}")
    assert plain.fingerprint == build("quality: {suite: core}").fingerprint
    assert difference(plain, full) == ['quality.suite: "core" → "full"']


def test_it_is_described(build: Build, context: Callable[[SearchSpace], Context]) -> None:
    space = build("quality: {probes: {n_2: allowed}, answers: {match: first, first: 4}}")
    text = "\n".join(describe(space, context(space)))
    assert "the core suite" in text
    assert "probe n_2: allowed" in text
    assert "first tokens" in text

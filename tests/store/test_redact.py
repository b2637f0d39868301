from __future__ import annotations

import json
import urllib.parse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.store.redact import NOTHING, RedactedStream, Redactor

SECRETS = st.text(min_size=6, max_size=20)
FILLING = st.text(st.characters(codec="utf-8"), max_size=30)


def forms(secret: str) -> list[str]:
    return [secret, json.dumps(secret)[1:-1], urllib.parse.quote(secret, safe="")]


@given(
    secret=SECRETS.filter(lambda s: s.isprintable()),
    parts=st.lists(FILLING, min_size=2, max_size=5),
    form=st.integers(0, 2),
)
def test_no_form_of_a_secret_is_left(secret: str, parts: list[str], form: int) -> None:
    text = forms(secret)[form].join(parts)
    redact = Redactor({"KEY": secret})
    assert forms(secret)[form] not in redact.text(text).replace("[KEY]", "\0")
    assert redact.raw(text.encode()) == redact.text(text).encode()


@given(
    secrets=st.lists(st.text("ab", min_size=6, max_size=10), min_size=1, max_size=3),
    text=st.text("abx", max_size=80),
    cuts=st.lists(st.integers(0, 80), max_size=6),
)
def test_a_stream_hides_what_the_whole_would_hide(
    secrets: list[str], text: str, cuts: list[int]
) -> None:
    redact = Redactor({f"S{n}": secret for n, secret in enumerate(secrets)})
    stream, shown, last = RedactedStream(redact), b"", 0
    for cut in [*sorted(cuts), len(text)]:
        shown += stream.feed(text[last:cut].encode())
        last = max(last, cut)
    shown += stream.end()
    for secret in secrets:
        assert secret.encode() not in shown
    if len(secrets) == 1:
        # One secret alone is found in the same places, unless it overlaps itself.
        assert len(shown) >= len(redact.raw(text.encode())) - len(secrets[0])


PLAIN = st.none() | st.integers() | st.text(max_size=5)
JSON = st.recursive(PLAIN, lambda d: st.lists(d) | st.dictionaries(st.text(max_size=5), d))


@pytest.mark.slow
@given(JSON)
def test_data_without_secrets_stays_as_it_is(data: Any) -> None:
    assert Redactor({"KEY": "a-secret-that-is-nowhere"}).data(data) == data
    assert NOTHING.data(data) is data


def test_keys_and_nested_values_are_hidden() -> None:
    redact = Redactor({"KEY": "canary-1"})
    found = redact.data({"canary-1": ["x canary-1", {"a": ("canary-1",)}], "n": 1})
    assert found == {"[KEY]": ["x [KEY]", {"a": ["[KEY]"]}], "n": 1}


def test_a_secret_within_another_is_hidden_as_the_longer_one() -> None:
    redact = Redactor({"SHORT": "canary", "LONG": "canary-long"})
    assert redact.text("canary-long canary") == "[LONG] [SHORT]"


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="KEY has fewer than 6"):
        Redactor({"KEY": "12345"})

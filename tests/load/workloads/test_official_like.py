from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace

import pytest

from tests.load.conftest import Mock
from tuner.load.plan import Closed, Message, Plan, Session
from tuner.load.run import run_load
from tuner.load.tokens import ByteTokens
from tuner.load.workloads.official_like import (
    OfficialLike,
    fitting,
    official_like,
    warm_up,
)
from tuner.load.workloads.official_statistics import statistics, table

TOKENS = ByteTokens()
SMALL = OfficialLike(requests=60, scale=0.05, concurrency=4)


def built(shape: OfficialLike, seed: int = 1) -> Plan:
    return official_like(shape, seed=seed, tokens=TOKENS)


@pytest.fixture(scope="module")
def whole() -> tuple[OfficialLike, Plan]:
    """All 881 requests at a tenth of their length."""
    shape = OfficialLike(scale=0.1, image_share=27 / 881)
    return shape, built(shape)


def test_the_whole_load_has_the_published_shape(whole: tuple[OfficialLike, Plan]) -> None:
    shape, plan = whole
    found = statistics(plan, shape, TOKENS)
    assert found.requests == 881
    assert found.prompt_mean == pytest.approx(2565, rel=0.07)
    assert found.reuse == pytest.approx(0.656, abs=0.02)
    assert found.tool_share == pytest.approx(690 / 881, abs=0.01)
    assert found.image_share == pytest.approx(27 / 881, abs=0.002)
    assert found.multi_system_share == pytest.approx(34 / 881, abs=0.01)
    assert [bucket.requests for bucket in found.buckets] == [95, 1, 219, 222, 115, 110, 114, 5]
    reuse = [bucket.reuse for bucket in found.buckets]
    for own, published in zip(reuse[2:7], [0.89, 0.58, 0.60, 0.66, 0.69], strict=True):
        assert own == pytest.approx(published, abs=0.05)
    assert found.outputs[50] == pytest.approx(19.7, abs=1.5)
    assert found.outputs[90] == pytest.approx(160, rel=0.1)


def test_lengths_are_exact_and_count_the_tools() -> None:
    plan = built(SMALL)
    for session in plan.sessions:
        turn = session.turns[0]
        texts = sum(len(message.content) for message in turn.messages) + 4 * plan.salt_words
        assert turn.expect_prompt_tokens is not None
        if session.tools:
            assert texts < turn.expect_prompt_tokens
        else:
            assert texts == turn.expect_prompt_tokens


def test_histories_are_ones_that_a_chat_template_accepts() -> None:
    for session in built(SMALL).sessions:
        roles = [message.role for message in session.turns[0].messages]
        assert roles[0] == "system"
        assert roles[-1] == "user"
        asked: list[str] = []
        previous = "system"
        for message in session.turns[0].messages:
            allowed = {
                "system": ("system",),
                "user": ("system", "assistant"),
                "assistant": ("user", "tool"),
                "tool": ("assistant",),
            }[message.role]
            assert previous in allowed
            previous = message.role
            extra = json.loads(message.extra or "{}")
            asked += [call["id"] for call in extra.get("tool_calls", [])]
            if message.role == "tool":
                assert extra["tool_call_id"] == asked[-1]
        assert bool(asked) <= bool(session.tools)


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert built(SMALL) == built(SMALL)
    assert built(SMALL).fingerprint != built(SMALL, seed=2).fingerprint
    assert built(SMALL, seed=7).fingerprint[:16] == PIN


def test_what_the_cache_really_finds_is_what_the_statistics_say(mock: Mock) -> None:
    shape = replace(SMALL, concurrency=1, scale=0.2, tool_share=0.0, requests=40)
    plan = built(shape)
    result = run_load(plan, mock.endpoint, salt="a")
    assert result.complete
    cached = sum(record.cached_tokens or 0 for record in result.records)
    prompts = sum(record.prompt_tokens or 0 for record in result.records)
    found = statistics(plan, shape, TOKENS)
    assert cached / prompts == pytest.approx(found.reuse, abs=0.03)
    assert plan.pacing == Closed(1)


def test_another_salt_finds_nothing(mock: Mock) -> None:
    plan = built(replace(SMALL, requests=1))
    for salt in ("a", "b"):
        (record,) = run_load(plan, mock.endpoint, salt=salt).records
        assert record.cached_tokens is not None
        assert record.cached_tokens <= 64


def test_images_are_real_pictures() -> None:
    plan = built(replace(SMALL, image_share=1.0, requests=4))
    for session in plan.sessions:
        last = session.turns[0].messages[-1]
        assert last.parts
        text, image = json.loads(last.content)
        assert text["type"] == "text"
        data = base64.b64decode(image["image_url"]["url"].removeprefix("data:image/png;base64,"))
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        size = int.from_bytes(data[33:37])
        pixels = zlib.decompress(data[41 : 41 + size])
        assert len(pixels) == 64 * (1 + 64 * 3)


def test_longer_prompts_than_the_engine_takes_are_left_out() -> None:
    shape = replace(SMALL, max_prompt_tokens=1000)
    plan = built(shape)
    assert max(session.turns[0].expect_prompt_tokens or 0 for session in plan.sessions) <= 1000
    assert [bucket.high for bucket in fitting(shape).buckets][-1] == 1000
    with pytest.raises(ValueError, match="lower the scale"):
        fitting(replace(SMALL, max_prompt_tokens=5))


def test_the_warm_up_has_other_texts() -> None:
    plan, warm = built(SMALL), warm_up(SMALL, seed=1, tokens=TOKENS, requests=5)
    assert warm.requests == 5
    assert warm.workload == "official-like-warmup"
    assert not messages(plan) & messages(warm)


def messages(plan: Plan) -> set[Message]:
    return {m for s in plan.sessions for m in s.turns[0].messages if len(m.content) > 20}


def test_the_table_lays_both_beside_each_other(whole: tuple[OfficialLike, Plan]) -> None:
    shape, plan = whole
    rows = {
        name: (published, own)
        for name, published, own in table(statistics(plan, shape, TOKENS), shape)
    }
    assert rows["requests"] == ("881", "881")
    assert rows["prompt tokens, mean"][0] == "2565"
    assert rows["prompts of 411-819: part, reuse"][0] == "0.249, 0.89"


def test_an_empty_load_has_no_shape() -> None:
    with pytest.raises(ValueError, match="without requests"):
        statistics(Plan("w", 0, (), Closed(1)), SMALL, TOKENS)
    assert statistics(built(replace(SMALL, requests=1)), SMALL, TOKENS).reuse == 0.0
    assert Session(()).tools == ()


PIN = "53dee48e8d2e077f"

"""Every probe against a sound server and against one that fails it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.quality.conftest import Serve
from tuner.load.endpoint import Endpoint
from tuner.quality.asking import Asker, context_of
from tuner.quality.catalogue import PROBES, Probe
from tuner.quality.suite import Outcome, ProbeResult, run_probes

pytestmark = pytest.mark.slow

LEARNT = {"tool_call", "reasoning", "image"}
"""What hashes cannot do."""


def run(endpoint: Endpoint, *names: str) -> dict[str, ProbeResult]:
    async def go() -> tuple[ProbeResult, ...]:
        ask = Asker(endpoint, context=context_of(endpoint), long_text="the sea and the sky " * 20)
        try:
            probes: list[Probe] = [p for p in PROBES if not names or p.name in names]
            needs = dict.fromkeys(probes, "required")
            return await run_probes(ask, needs, threading.Event())  # type: ignore[arg-type]
        finally:
            await ask.close()

    return {result.name: result for result in asyncio.run(go())}


def test_a_sound_server_passes_all_that_it_can(serve: Serve) -> None:
    found = run(serve())
    failed = {name: r.reason for name, r in found.items() if r.outcome is not Outcome.PASSED}
    assert set(failed) == LEARNT, failed


@pytest.mark.parametrize(
    ("switch", "probes", "words"),
    [
        ("accepts-bad", ("bad_body", "bad_messages", "bad_parameters", "too_long"), "4xx belongs"),
        ("no-json", ("json_object", "json_schema"), "status 500"),
        ("prose-for-json", ("json_object", "json_schema"), "no JSON"),
        ("one-choice", ("n_2",), "1 choices where 2"),
        ("ignores-seed", ("seed",), "seed 7 gave"),
        ("ignores-stop", ("stop",), "holds the stop word"),
        ("ignores-limit", ("chat", "max_tokens_1"), "tokens where"),
        ("no-usage", ("chat", "system", "languages"), "usage"),
        ("one-system", ("multi_system",), "System message must be at the beginning"),
        ("no-null-content", ("tool_messages",), "status 400"),
        ("no-newer-name", ("parameters",), "max_completion_tokens: status 400"),
        ("bad-arguments", ("tool_choice",), "no JSON"),
        ("forgets", ("cache",), "no token of it came from the cache"),
        ("cached-unsaid", ("cache",), "--enable-prompt-tokens-details"),
        ("small-answers-only", ("max_tokens_large", "max_tokens_none"), "status 400"),
        ("dead-healthy", tuple(p.name for p in PROBES), ""),
    ],
)
def test_an_unsound_one_fails_the_probe_that_is_about_it(
    serve: Serve, switch: str, probes: tuple[str, ...], words: str
) -> None:
    found = run(serve(switch), *probes)
    for name in probes:
        assert found[name].outcome is Outcome.FAILED, name
        assert words in (found[name].reason or "")


def test_a_request_that_never_ends_fails_in_time(serve: Serve) -> None:
    async def go() -> tuple[ProbeResult, ...]:
        ask = Asker(serve("never-answer"), timeout=0.3)
        try:
            chat = next(p for p in PROBES if p.name == "chat")
            return await run_probes(ask, {chat: "required"}, threading.Event())
        finally:
            await ask.close()

    (found,) = asyncio.run(go())
    assert (found.outcome, found.reason) == (Outcome.FAILED, "no answer: it did not come in time")


def test_the_server_lives_on_after_users_went_away(serve: Serve) -> None:
    endpoint = serve()
    for _ in range(2):
        found = run(endpoint, "max_tokens_none", "max_tokens_large", "chat")
        assert {r.outcome for r in found.values()} == {Outcome.PASSED}

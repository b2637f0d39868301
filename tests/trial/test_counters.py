from __future__ import annotations

import threading

import httpx
import pytest

from tests.quality.conftest import served
from tuner.trial.counters import Work, total, work_of


def at(value: float, *, running: int | None = None, waiting: int | None = None) -> Work:
    return Work(frozenset({("vllm:generation_tokens_total", "", value)}), running, waiting)


def test_a_server_that_is_not_there_tells_nothing() -> None:
    assert work_of("http://127.0.0.1:1") == Work()


def test_steps_show_and_requests_that_stand_still_do_not() -> None:
    body = {"model": "llm", "prompt": "x" * 300, "max_tokens": 5, "temperature": 0}
    with served((), FAKE_AFTER="100") as endpoint:
        before = work_of(endpoint.url)
        assert work_of(endpoint.url) == before
        httpx.post(f"{endpoint.url}/v1/completions", json=body, trust_env=False)
        assert work_of(endpoint.url).moved_since(before)
    assert (before.running, before.waiting, before.queued) == (0, 0, False)


@pytest.mark.parametrize(
    ("switch", "seen"),
    [("hang-in-load", set()), ("long-prefill", {"moved"}), ("queued", {"queued"})],
)
def test_requests_without_a_token_are_told_apart(switch: str, seen: set[str]) -> None:
    body = {"model": "llm", "prompt": "x", "max_tokens": 1}
    with served((switch,), FAKE_AFTER="0", FAKE_LINGER="60") as endpoint:

        def ask() -> None:
            try:
                httpx.post(f"{endpoint.url}/v1/completions", json=body, trust_env=False, timeout=60)
            except httpx.HTTPError:
                return  # the server ended

        asking = threading.Thread(target=ask)
        asking.start()
        before = work_of(endpoint.url)
        while not (before.running or before.waiting):
            before = work_of(endpoint.url)
        found = work_of(endpoint.url)
        while "moved" in seen and not found.moved_since(before):
            found = work_of(endpoint.url)
        assert found.moved_since(before) == ("moved" in seen)
        assert found.queued == ("queued" in seen)
    asking.join()


def test_counters_of_several_engines_are_added_up() -> None:
    found = [
        ("vllm:num_requests_waiting", '{engine="0"}', 2.0),
        ("vllm:num_requests_waiting", '{engine="1"}', 3.0),
    ]
    assert total(found, "vllm:num_requests_waiting") == 5
    assert total(found, "vllm:num_requests_running") is None


def test_what_is_not_told_neither_moves_nor_waits() -> None:
    assert not at(2).moved_since(Work())
    assert not Work().moved_since(at(2))
    assert at(2).moved_since(at(1))
    assert not at(1, waiting=2).queued
    assert not at(1, running=1, waiting=2).queued

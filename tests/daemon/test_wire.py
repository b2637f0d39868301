from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

from tuner.daemon import wire
from tuner.daemon.hub import Hub, News
from tuner.daemon.worker import Ear, Mouth
from tuner.trial.events import Happening
from tuner.trial.wishes import Wishes


def test_packets_stay_whole_and_the_end_is_seen() -> None:
    one, two = wire.pair()
    with one, two:
        assert wire.send(one, {"a": "ü" * 1000})
        assert wire.send(one, {"b": 2})
        assert wire.receive(two) == {"a": "ü" * 1000}
        assert wire.receive(two) == {"b": 2}
        one.close()
        assert wire.receive(two) is None


def test_a_full_channel_and_a_dead_reader_hold_nobody_up() -> None:
    one, two = wire.pair()
    with one, two:
        began = time.monotonic()
        sent = [wire.send(one, {"x": "y" * 1000}) for _ in range(10_000)]
        assert sent[0]
        assert not sent[-1]
        assert time.monotonic() - began < 5
        two.close()
        assert not wire.send(one, {})
        assert not wire.send(one, {"too": "l" * wire.LARGEST})


def heard(end: socket.socket) -> list[dict[str, Any]]:
    end.settimeout(0)
    found: list[dict[str, Any]] = []
    while True:
        try:
            said = wire.receive(end)
        except BlockingIOError:
            return found
        if said is None:
            return found
        found.append(said)


def test_a_worker_tells_what_is_kept_by_a_hint_and_the_rest_in_full_but_not_too_often() -> None:
    one, two = wire.pair()
    with one, two:
        mouth = Mouth(one)
        for number in range(50):
            mouth.hear(Happening("load", 1, {"done": number, "of": 50}, at=1.0 + number / 1000))
        mouth.hear(Happening("load", 1, {"done": 50, "of": 50}, at=1.06))
        mouth.hear(Happening("stage", 1, {"stage": "measured"}, at=1.07))
        said = heard(two)
        assert [s.get("hint") or s["data"]["done"] for s in said] == [0, 50, "stage"]


def test_an_ear_hears_wishes_and_takes_the_end_for_a_wish_to_stop() -> None:
    one, two = wire.pair()
    wishes = Wishes()
    with one, two:
        ear = Ear(two, wishes)
        ear.start()
        wire.send(one, {"do": "pause"})
        assert wishes.pausing.wait(5)
        wire.send(one, {"do": "budget", "budget": {"trials": 9}})
        wire.send(one, {"do": "go"})
        deadline = time.monotonic() + 5
        while wishes.pausing.is_set():
            assert time.monotonic() < deadline
        assert wishes.budget == {"trials": 9}
        assert not wishes.cancelled.is_set()
        one.close()
        assert wishes.cancelled.wait(5)
        ear.join(5)


# --- those who watch -----------------------------------------------------------------------------


def test_a_watch_gets_the_last_word_first_and_forgets_the_oldest() -> None:
    async def run() -> None:
        hub = Hub()
        hub.tell(News("load", "s", 1, {"done": 1}))
        hub.tell(News("load", "s", 1, {"done": 2}))
        async with hub.watching() as watch:
            (first,) = await watch.wait(1)
            assert first.data == {"done": 2}
            for number in range(1000):
                hub.tell(News("load", "s", 1, {"done": number}))
            found = await watch.wait(1)
            assert [n.data["done"] for n in found] == list(range(1000 - len(found), 1000))
            assert len(found) < 500
            assert await watch.wait(0.01) == []
            hub.hint()
            assert await watch.wait(1) == []
            hub.close()
            await watch.wait(1)
            assert watch.over
        async with hub.watching() as late:
            assert late.over

    asyncio.run(run())


def test_what_was_true_of_a_study_is_forgotten_with_its_worker() -> None:
    async def run() -> None:
        hub = Hub()
        hub.tell(News("load", "s"))
        hub.tell(News("devices"))
        hub.forget("s")
        assert set(hub.latest) == {(None, "devices")}

    asyncio.run(run())


def test_news_from_the_watch_thread_does_not_block_it() -> None:
    one, two = wire.pair()
    with one, two:
        mouth = Mouth(one)

        def talk() -> None:
            for _ in range(100):
                mouth.hear(Happening("sample", 1, {}))

        threads = [threading.Thread(target=talk) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
            assert not thread.is_alive()

"""The clients under test, each a process of its own: ``clients.py ours|httpx PORT REQUESTS STREAMS CHUNKS``.

``ours`` is the load client. ``httpx`` reads the same streams with the same parser through httpx's
own interface, to show what :mod:`tuner.load.wire` is for. Both print one JSON object: for each
request when it was sent and when each chunk was seen, on the monotonic clock. What CPU they spent after
their imports goes into the file ``cpu``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import httpx

from tuner.load.answer import Answer
from tuner.load.endpoint import Endpoint
from tuner.load.plan import Closed, Message, Plan, Session, Turn
from tuner.load.run import run_load

PROMPT = "word " * 40


def ours(
    port: int, requests: int, streams: int, chunks: int
) -> list[tuple[int, float, list[float]]]:
    """Number, time of sending and times of the chunks of each request, by the load client."""
    sessions = tuple(
        Session((Turn((Message("user", PROMPT),), chunks, json.dumps({"seed": number})),))
        for number in range(requests)
    )
    plan = Plan("bench", 0, sessions, Closed(streams))
    result = run_load(plan, Endpoint("llm", port=port), salt="bench")
    assert all(record.ok for record in result.records), result.records[0].detail
    zero = result.zero
    return [
        (record.session, (record.sent or 0.0) + zero, [at + zero for at in record.chunk_times])
        for record in result.records
    ]


def plain_httpx(
    port: int, requests: int, streams: int, chunks: int
) -> list[tuple[int, float, list[float]]]:
    """The same by httpx's own streaming interface."""
    return asyncio.run(_plain_httpx(port, requests, streams, chunks))


async def _plain_httpx(
    port: int, requests: int, streams: int, chunks: int
) -> list[tuple[int, float, list[float]]]:
    numbers = iter(range(requests))
    found = []
    limits = httpx.Limits(max_connections=streams, max_keepalive_connections=streams)
    url = f"http://127.0.0.1:{port}/v1/chat/completions"

    async def slot(http: httpx.AsyncClient) -> None:
        for number in numbers:
            body = {
                "model": "llm",
                "messages": [{"role": "user", "content": PROMPT}],
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_tokens": chunks,
                "seed": number,
            }
            answer = Answer()
            sent = time.monotonic()
            async with http.stream("POST", url, json=body) as reply:
                async for data in reply.aiter_raw():
                    answer.feed(data, time.monotonic())
            assert answer.conclude() is None
            found.append((number, sent, answer.times))

    async with httpx.AsyncClient(limits=limits, timeout=60) as http:
        await asyncio.gather(*(slot(http) for _ in range(streams)))
    return found


def main() -> None:
    kind, *figures = sys.argv[1:]
    port, requests, streams, chunks = map(int, figures)
    client = {"ours": ours, "httpx": plain_httpx}[kind]
    start = time.process_time()
    found = client(port, requests, streams, chunks)
    Path("cpu").write_text(str(time.process_time() - start))
    print(json.dumps(found))


if __name__ == "__main__":
    main()

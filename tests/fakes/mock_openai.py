"""A chat server whose emission times are known, for testing the load client.

It runs as a process of its own and speaks HTTP/1.1 on raw asyncio. Each byte is a token; the
prompt is the ChatML text of the messages; cached tokens are the longest shared prefix with any
earlier prompt, in blocks. A request's ``mock`` object says how it is answered:

``ttft_s`` and ``itl_s``: delays; ``chunks``: how many content chunks; ``tokens_per_chunk``: usage
counts this many tokens for each; ``align_s``: emissions are held back to the next multiple of it,
so that streams emit in bursts as an engine's steps do; ``reasoning`` and ``tools``: so many chunks
come as reasoning or as tool-call deltas first; ``fail``: ``refuse`` (400), ``broken`` (500),
``error`` (an error object in the stream), ``abort`` (the connection is cut), ``no_done``,
``no_usage``, ``malformed``, ``silent`` (never answers), ``exit`` (the process ends), each after
``fail_after`` chunks; ``split``: bodies are written in pieces of so many bytes; ``crlf``: lines end
with CRLF; ``comments``: a comment line goes before each event.

Without a ``mock`` object ``--ttft``, ``--itl`` and ``--align`` hold, and ``max_tokens`` is the number
of chunks. ``GET /mock/log`` gives, out of band, what was received and when each chunk was handed to the
socket, on ``time.monotonic``, which all processes of a machine share.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from typing import Any

BLOCK = 16
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error"}


@dataclass
class Served:
    """One request as the server saw it."""

    received: float
    body_sha: str
    messages: list[dict[str, Any]]
    fields: dict[str, Any]
    prompt_tokens: int = 0
    cached_tokens: int = 0
    emitted: list[float] = field(default_factory=list)
    cut: bool = False


class Server:
    """All that the connections share."""

    def __init__(self, *, log_messages: bool, defaults: dict[str, Any]) -> None:
        self.log: list[Served] = []
        self.log_messages = log_messages
        self.defaults = defaults
        self.blocks: set[bytes] = set()
        self.active = 0
        self.peak = 0
        self.connections = 0

    def cached(self, prompt: bytes) -> int:
        """Tokens of the prompt's leading blocks seen before; the prompt's own blocks are added."""
        running = hashlib.sha256()
        hits = 0
        missed = False
        for start in range(0, len(prompt) - BLOCK, BLOCK):
            running.update(prompt[start : start + BLOCK])
            key = running.digest()
            missed = missed or key not in self.blocks
            hits += 0 if missed else BLOCK
            self.blocks.add(key)
        return hits


def render(messages: list[dict[str, Any]], tools: list[Any] | None) -> bytes:
    """The prompt: ChatML, with the tools' JSON before everything else."""
    parts = [json.dumps(tools)] if tools else []
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content or "")
        calls = json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
        parts.append(f"<|im_start|>{message['role']}\n{text}{calls}<|im_end|>\n")
    return ("".join(parts) + "<|im_start|>assistant\n").encode()


def event(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A chunk of a chat completion, with the fields that a real server sends."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "llm",
        "choices": [{**choice, "stop_reason": None, "token_ids": None}],
    }


class Writer:
    """Writes one chunked response, in pieces where that was asked for."""

    def __init__(self, transport: asyncio.Transport, mock: dict[str, Any]) -> None:
        self.transport = transport
        self.eol = "\r\n" if mock.get("crlf") else "\n"
        self.comments = bool(mock.get("comments"))
        self.split = int(mock.get("split", 0))

    def head(self) -> None:
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )

    def raw(self, body: bytes) -> None:
        step = self.split or len(body)
        framed = b"".join(
            b"%x\r\n%b\r\n" % (len(body[at : at + step]), body[at : at + step])
            for at in range(0, len(body), step)
        )
        self.transport.write(framed)

    def data(self, payload: str) -> None:
        comment = f": ping{self.eol}{self.eol}" if self.comments else ""
        self.raw(f"{comment}data: {payload}{self.eol}{self.eol}".encode())

    def end(self) -> None:
        self.transport.write(b"0\r\n\r\n")


class Connection(asyncio.Protocol):
    """One keep-alive connection: requests come one after another."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = bytearray()
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.connections += 1

    def connection_lost(self, _exc: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).decode("latin-1")
        lines = head.split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        size = int(headers.get("content-length", "0"))
        if len(self.buffer) < end + 4 + size:
            return
        body = bytes(self.buffer[end + 4 : end + 4 + size])
        del self.buffer[: end + 4 + size]
        path = lines[0].split(" ")[1]
        self.task = asyncio.ensure_future(self.answer(path, body, now))

    def plain(self, status: int, payload: Any) -> None:
        body = json.dumps(payload).encode()
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (status, _REASONS[status].encode(), len(body), body)
        )

    async def answer(self, path: str, body: bytes, received: float) -> None:
        if path == "/mock/log":
            log = [vars(one) for one in self.server.log]
            shared = {"peak": self.server.peak, "connections": self.server.connections}
            return self.plain(200, {"requests": log, **shared})
        if path == "/health":
            return self.plain(200, {})
        if path == "/v1/models":
            return self.plain(200, {"data": [{"id": "llm"}]})
        if path == "/tokenize":
            asked = json.loads(body)
            text = (
                asked["prompt"].encode()
                if "prompt" in asked
                else render(asked["messages"], asked.get("tools"))
            )
            return self.plain(200, {"count": len(text), "max_model_len": 1 << 20, "tokens": []})
        if path != "/v1/chat/completions":
            return self.plain(404, {"error": {"message": f"no route {path}"}})
        asked = json.loads(body)
        prompt = render(asked["messages"], asked.get("tools"))
        served = Served(
            received=received,
            body_sha=hashlib.sha256(body).hexdigest(),
            messages=asked["messages"] if self.server.log_messages else [],
            fields={k: v for k, v in asked.items() if k not in ("messages", "mock")},
            prompt_tokens=len(prompt),
            cached_tokens=self.server.cached(prompt),
        )
        self.server.log.append(served)
        self.server.active += 1
        self.server.peak = max(self.server.peak, self.server.active)
        try:
            await self.stream(asked, served)
        except asyncio.CancelledError:
            served.cut = True
            raise
        finally:
            self.server.active -= 1

    async def stream(self, asked: dict[str, Any], served: Served) -> None:
        mock = self.server.defaults | asked.get("mock", {})
        fail = mock.get("fail")
        if fail == "refuse":
            message = "maximum context length is 16 tokens"
            return self.plain(400, {"error": {"message": message, "code": 400}})
        if fail == "broken":
            return self.plain(500, {"error": {"message": "EngineCore died", "code": 500}})
        if fail == "silent":
            await asyncio.sleep(3600)
        writer = Writer(self.transport, mock)
        writer.head()
        writer.data(json.dumps(event({"role": "assistant", "content": ""})))
        limit = asked.get("max_tokens") or asked.get("max_completion_tokens") or 8
        chunks = int(mock.get("chunks", limit))
        sent = await self.emit(writer, mock, chunks, served)
        if not sent:
            return None
        self.finish(writer, mock, asked, served)
        return None

    async def emit(self, writer: Writer, mock: dict[str, Any], chunks: int, served: Served) -> bool:
        """Send the content; whether the stream is still to be finished."""
        due = served.received + float(mock.get("ttft_s", 0.0))
        reasoning, tools = int(mock.get("reasoning", 0)), int(mock.get("tools", 0))
        fail_after = int(mock.get("fail_after", 1)) if mock.get("fail") else -1
        texts = [json.dumps(event(delta_of(i, reasoning, tools))) for i in range(min(chunks, 64))]
        for index in range(chunks):
            if index == fail_after and not self.fail(writer, mock["fail"]):
                return False
            await self.wait(due, float(mock.get("align_s", 0.0)))
            long = index >= reasoning + tools + 32
            served.emitted.append(time.monotonic())
            writer.data(texts[-1] if long and len(texts) == 64 else texts[min(index, 63)])
            due += float(mock.get("itl_s", 0.0))
        return not (chunks == fail_after and not self.fail(writer, mock["fail"]))

    async def wait(self, due: float, align: float) -> None:
        if align:
            due = -(-due // align) * align
        pause = due - time.monotonic()
        await asyncio.sleep(max(0.0, pause))

    def fail(self, writer: Writer, kind: str) -> bool:
        """Fail as asked; whether the stream goes on."""
        if kind == "error":
            writer.data(json.dumps({"error": {"message": "CUDA out of memory", "code": 500}}))
            writer.data("[DONE]")
            writer.end()
            return False
        if kind == "malformed":
            writer.data('{"choices": [{"delta": {"content": "x"')
            writer.data("[DONE]")
            writer.end()
            return False
        if kind == "abort":
            self.transport.abort()
            return False
        if kind == "exit":
            os._exit(1)
        return True

    def finish(
        self, writer: Writer, mock: dict[str, Any], asked: dict[str, Any], served: Served
    ) -> None:
        chunks = len(served.emitted)
        reason = "tool_calls" if mock.get("tools") else "length"
        writer.data(json.dumps(event({}, reason)))
        if mock.get("fail") != "no_usage":
            tokens = chunks * int(mock.get("tokens_per_chunk", 1))
            usage = {
                "prompt_tokens": served.prompt_tokens,
                "completion_tokens": tokens,
                "total_tokens": served.prompt_tokens + tokens,
                "prompt_tokens_details": {"cached_tokens": served.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": int(mock.get("reasoning", 0))},
            }
            if (asked.get("stream_options") or {}).get("include_usage"):
                writer.data(json.dumps({**event({}), "choices": [], "usage": usage}))
        if mock.get("fail") != "no_done":
            writer.data("[DONE]")
        writer.end()


def delta_of(index: int, reasoning: int, tools: int) -> dict[str, Any]:
    """The delta of one chunk: reasoning first, then the parts of one tool call, then text."""
    if index < reasoning:
        return {"reasoning_content": f"r{index} "}
    if index < reasoning + tools:
        first = {"id": "call_1", "type": "function"} if index == reasoning else {}
        name = {"name": "look"} if index == reasoning else {}
        arguments = '{"x": [0' if index == reasoning else ", 1"
        if index == reasoning + tools - 1:
            arguments += "]}"
        call = {"index": 0, **first, "function": {**name, "arguments": arguments}}
        return {"tool_calls": [call]}
    return {"content": f"w{index % 10} "}


async def serve(server: Server, port: int, uds: str | None) -> None:
    """Serve until killed; the first line of standard output is the port."""
    loop = asyncio.get_running_loop()
    if uds is not None:
        listening = await loop.create_unix_server(lambda: Connection(server), uds)
        print(uds, flush=True)  # the parent reads it
    else:
        listening = await loop.create_server(
            lambda: Connection(server), "127.0.0.1", port, backlog=1024
        )
        print(listening.sockets[0].getsockname()[1], flush=True)  # the parent reads it
    gc.freeze()
    await listening.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--uds")
    parser.add_argument("--log-messages", action="store_true")
    parser.add_argument("--ttft", type=float, default=0.0)
    parser.add_argument("--itl", type=float, default=0.0)
    parser.add_argument("--align", type=float, default=0.0)
    args = parser.parse_args()
    defaults = {"ttft_s": args.ttft, "itl_s": args.itl, "align_s": args.align}
    server = Server(log_messages=args.log_messages, defaults=defaults)
    asyncio.run(serve(server, args.port, args.uds))


if __name__ == "__main__":
    main()

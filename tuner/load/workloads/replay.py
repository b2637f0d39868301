"""Replays of recorded traces: one request a row, in their order or at their times."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.load.plan import Closed, Message, Open, Plan, Session, Tool, Turn
from tuner.load.salt import reference_salt
from tuner.load.text import exact_text
from tuner.load.tokens import Tokens
from tuner.load.workloads.common import generator, salt_words, sampling
from tuner.load.workloads.trace import Row, read_trace

_BLOCK = 512
"""Tokens of a block of the prompt, in traces that name the blocks (Mooncake's form)."""


@dataclass(frozen=True, slots=True)
class Replay:
    """How a trace is sent again.

    Attributes:
        file: The trace, JSONL or CSV by its ending (:func:`~tuner.load.workloads.trace.read_trace`).
        name: Name of the workload.
        mode: ``closed``: a request is sent when an earlier one has ended; ``open``: at its time.
        window: Requests that run at a time in closed mode.
        limit: The most that may run at a time in open mode; None for no limit.
        time_scale: Recorded times are multiplied by this; 0.5 sends twice as fast.
        requests: Only the first so many rows.
        scale: Recorded lengths are multiplied by this, where the rows have lengths and no texts.
        ignore_eos: Whether answers run to their recorded length whatever the model says.
        temperature: Sampling temperature of rows that record none.
        request_timeout_s: Time for one request.
        load_timeout_s: Time for all.
    """

    file: Path
    name: str = "replay"
    mode: str = "closed"
    window: int = 1
    limit: int | None = None
    time_scale: float = 1.0
    requests: int | None = None
    scale: float = 1.0
    ignore_eos: bool = True
    temperature: float = 0.0
    request_timeout_s: float = 600.0
    load_timeout_s: float = 46_800.0


def replay(shape: Replay, *, seed: int, tokens: Tokens) -> Plan:
    """The plan that sends a trace again.

    Rows with messages are sent as they were recorded, with their own history. Rows that only have
    lengths get texts of those lengths; where they name the blocks of their prompts, equal blocks get
    equal texts, so that the prefix cache meets what it met when the trace was recorded.

    Raises:
        UserError: When the trace cannot be read, or open mode is asked of rows without times.
        LengthUnreachable: When no text of a recorded length can be built.
    """
    rows = read_trace(shape.file, shape.requests)
    recorded = any(row.messages is not None for row in rows)
    lengths = [_scaled(row.prompt_tokens, shape.scale) for row in rows if row.messages is None]
    words = salt_words(tokens, min(lengths)) if lengths else 12
    texts = _Texts(seed, tokens, reference_salt(words), shape)
    first = min((row.arrival_s for row in rows if row.arrival_s is not None), default=0.0)
    sessions = []
    for row in rows:
        turn, tools = _recorded(row, shape) if row.messages else (texts.turn(row), ())
        if shape.mode == "open":
            turn = replace(turn, arrival_s=_due(row, shape, first))
        sessions.append(Session((turn,), tools=tools, tool_choice=_choice(row)))
    if shape.mode == "open":
        sessions.sort(key=lambda session: session.turns[0].arrival_s or 0.0)
    return Plan(
        workload=shape.name,
        seed=seed,
        sessions=tuple(sessions),
        pacing=Open(shape.limit) if shape.mode == "open" else Closed(shape.window),
        thread_answers=False,
        salt_words=words,
        salt_each=not recorded and not any(row.blocks for row in rows),
        request_timeout_s=shape.request_timeout_s,
        load_timeout_s=shape.load_timeout_s,
    )


def warm_up(shape: Replay, *, seed: int, tokens: Tokens, requests: int) -> Plan:
    """The first so many rows in closed mode. What is recorded stays as it is; the salt differs."""
    if requests == 0:
        return Plan(f"{shape.name}-warmup", seed, (), Closed(shape.window))
    warm = replace(shape, name=f"{shape.name}-warmup", mode="closed", requests=requests)
    return replay(warm, seed=seed + 1, tokens=tokens)


@dataclass(slots=True)
class _Texts:
    """Makes up the prompts of rows that have lengths only."""

    seed: int
    tokens: Tokens
    salt: str
    shape: Replay
    _blocks: dict[tuple[int, int], str] = field(default_factory=dict)

    def turn(self, row: Row) -> Turn:
        """A request with a prompt of the row's length, made of its blocks where it names them."""
        if row.output_tokens is None:
            raise UserError(
                "the row has no length of the answer", file=self.shape.file, line=row.line
            )
        length = _scaled(row.prompt_tokens, self.shape.scale)
        output = _scaled(row.output_tokens, self.shape.scale)
        text = self._of_blocks(row.blocks, length) if row.blocks else self._single(row, length)
        shape = self.shape
        return Turn(
            messages=(Message("user", text),),
            max_tokens=output,
            sampling=sampling(temperature=shape.temperature, ignore_eos=shape.ignore_eos),
            expect_prompt_tokens=length,
            expect_output_tokens=output if shape.ignore_eos else None,
        )

    def _single(self, row: Row, length: int) -> str:
        rng = generator("replay", self.seed, row.line)
        return exact_text(self.tokens, rng, length, prefix=self.salt).removeprefix(self.salt)

    def _of_blocks(self, blocks: tuple[int, ...], length: int) -> str:
        """The texts of the blocks, one after another; the salt takes its room from the first."""
        size = max(1, round(_BLOCK * self.shape.scale))
        left = length - self.tokens.count(self.salt)
        first = max(1, size - self.tokens.count(self.salt))
        texts = []
        for number, block in enumerate(blocks):
            last = number == len(blocks) - 1
            wanted = left if last else min(left, first if number == 0 else size)
            if wanted > 0:
                texts.append(self._block(block, wanted))
            left -= max(wanted, 0)
        return "".join(texts)

    def _block(self, block: int, size: int) -> str:
        key = (block, size)
        if key not in self._blocks:
            rng = generator("block", self.seed, block)
            self._blocks[key] = exact_text(self.tokens, rng, size, prefix="\n")
        return self._blocks[key]


def _recorded(row: Row, shape: Replay) -> tuple[Turn, tuple[Tool, ...]]:
    """A request as it was recorded."""
    fields = {"temperature": shape.temperature, **(row.fields or {})}
    forced = shape.ignore_eos and row.output_tokens is not None
    if forced:
        fields["ignore_eos"] = True
    turn = Turn(
        messages=tuple(map(_message, row.messages or ())),
        max_tokens=row.output_tokens if forced else row.max_tokens or row.output_tokens,
        sampling=json.dumps(fields),
        expect_output_tokens=row.output_tokens if forced else None,
    )
    return turn, tuple(_tool(tool["function"]) for tool in row.tools)


def _message(recorded: dict[str, Any]) -> Message:
    rest = {k: v for k, v in recorded.items() if k not in ("role", "content")}
    content = recorded.get("content")
    extra = json.dumps(rest) if rest else None
    if isinstance(content, list):
        return Message(recorded["role"], json.dumps(content), parts=True, extra=extra)
    return Message(recorded["role"], content or "", extra=extra)


def _tool(function: dict[str, Any]) -> Tool:
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return Tool(function["name"], function.get("description") or "", json.dumps(parameters))


def _choice(row: Row) -> str:
    if row.tool_choice is None:
        return "none"
    return row.tool_choice if isinstance(row.tool_choice, str) else json.dumps(row.tool_choice)


def _due(row: Row, shape: Replay, first: float) -> float:
    if row.arrival_s is None:
        raise UserError(
            "open mode needs a time of arrival in each row",
            file=shape.file,
            line=row.line,
            mend="add arrival_s, or use closed mode",
        )
    return (row.arrival_s - first) * shape.time_scale


def _scaled(tokens: int | None, scale: float) -> int:
    return max(1, round((tokens or 0) * scale))

"""Conversations from a local file in the ShareGPT form, held again with the engine's own answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.load.lengths import Length, draw
from tuner.load.plan import Closed, Message, Plan, Session, Turn
from tuner.load.salt import reference_salt
from tuner.load.tokens import Tokens
from tuner.load.workloads.common import generator, sampling, shuffled

_ROLES = {"system": "system", "human": "user", "user": "user", "gpt": "assistant"}
_ROLES |= {
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
}

Exchange = tuple[str, str | None]
"""What a user said, and the answer that was recorded, where one was."""


@dataclass(frozen=True, slots=True)
class Talk:
    """One recorded conversation.

    Attributes:
        system: Its system prompt, empty where it has none.
        exchanges: What was said, question by question.
    """

    system: str
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """How a file of conversations is used.

    Attributes:
        file: A JSON list of objects with ``conversations`` (or ``messages``), each a list of turns
            with ``from`` and ``value`` (or ``role`` and ``content``).
        name: Name of the workload.
        conversations: How many are drawn, each at most once.
        turns: The most exchanges that are taken of one conversation.
        concurrency: Conversations open at a time.
        output_tokens: Length of an answer; None for as many tokens as the recorded one has.
        max_prompt_tokens: Conversations are cut before the turn that would pass this, answers
            included; one whose first turn does is not drawn.
        ignore_eos: Whether answers run to their length whatever the model says.
        temperature: 0 for greedy answers.
        request_timeout_s: Time for one request.
        load_timeout_s: Time for all.
    """

    file: Path
    name: str = "dataset"
    conversations: int = 100
    turns: int | None = None
    concurrency: int = 4
    output_tokens: Length | None = None
    max_prompt_tokens: int | None = None
    ignore_eos: bool = True
    temperature: float = 0.0
    request_timeout_s: float = 300.0
    load_timeout_s: float = 3600.0


def dataset(shape: Dataset, *, seed: int, tokens: Tokens) -> Plan:
    """The plan: the same conversations in the same order for the same file, shape and seed.

    Raises:
        UserError: When the file cannot be read or has too few conversations.
    """
    rng = generator(shape.name, seed)
    talks = shuffled(rng, read_talks(shape.file))
    sessions: list[Session] = []
    for talk in talks:
        if len(sessions) == shape.conversations:
            break
        turns = _turns(talk, shape, rng, tokens)
        if turns:
            sessions.append(Session(turns))
    if len(sessions) < shape.conversations:
        raise UserError(
            f"{shape.conversations} conversations are asked for, and {len(sessions)} can be used",
            file=shape.file,
        )
    return Plan(
        workload=shape.name,
        seed=seed,
        sessions=tuple(sessions),
        pacing=Closed(shape.concurrency),
        request_timeout_s=shape.request_timeout_s,
        load_timeout_s=shape.load_timeout_s,
    )


def warm_up(shape: Dataset, *, seed: int, tokens: Tokens, conversations: int) -> Plan:
    """So many conversations of the same file, drawn apart; the salt keeps them from warming any."""
    warm = replace(shape, name=f"{shape.name}-warmup", conversations=conversations)
    return dataset(warm, seed=seed, tokens=tokens)


def read_talks(file: Path) -> list[Talk]:
    """The conversations of a file that begin with a question, in the order of the file.

    Raises:
        UserError: When the file is not of the form; single odd conversations are passed over.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as wrong:
        raise UserError(f"cannot read the dataset: {wrong.strerror}", file=file) from None
    except UnicodeDecodeError:
        raise UserError("the dataset is not UTF-8", file=file) from None
    except json.JSONDecodeError as wrong:
        raise UserError(f"not JSON: {wrong.msg}", file=file, line=wrong.lineno) from None
    except RecursionError:
        raise UserError("the JSON is nested too deeply", file=file) from None
    if not isinstance(found, list):
        raise UserError("a dataset is a JSON list of conversations", file=file)
    talks = [talk for entry in found if (talk := _talk(entry)) is not None]
    if not talks:
        raise UserError("no entry of the dataset is a conversation", file=file)
    return talks


def _talk(entry: Any) -> Talk | None:
    """The conversation in an entry; None where it does not begin with a question."""
    turns = entry.get("conversations") or entry.get("messages") if isinstance(entry, dict) else None
    if not isinstance(turns, list):
        return None
    system, exchanges = "", list[Exchange]()
    for role, text in _said(turns):
        if role == "system" and not exchanges:
            system += text
        elif role == "user" and (not exchanges or exchanges[-1][1] is not None):
            exchanges.append((text, None))
        elif role == "assistant" and exchanges and exchanges[-1][1] is None:
            exchanges[-1] = (exchanges[-1][0], text)
        else:
            break  # what follows does not alternate: the conversation ends here
    return Talk(system, tuple(exchanges)) if exchanges else None


def _said(turns: list[Any]) -> Iterator[tuple[str, str]]:
    for turn in turns:
        if not isinstance(turn, dict):
            return
        role = _ROLES.get(str(turn.get("from", turn.get("role"))))
        text = turn.get("value", turn.get("content"))
        if role is None or not isinstance(text, str) or not text:
            return
        yield role, text


def _turns(talk: Talk, shape: Dataset, rng: random.Random, tokens: Tokens) -> tuple[Turn, ...]:
    asked = sampling(temperature=shape.temperature, ignore_eos=shape.ignore_eos)
    known = tokens.count(reference_salt() + talk.system)
    turns: list[Turn] = []
    for question, answer in talk.exchanges[: shape.turns]:
        output = _output(answer, shape, rng, tokens)
        if output is None:
            break
        known += tokens.count(question)
        if shape.max_prompt_tokens is not None and known + output > shape.max_prompt_tokens:
            break
        opening = (Message("system", talk.system),) if talk.system and not turns else ()
        turns.append(
            Turn(
                messages=(*opening, Message("user", question)),
                max_tokens=output,
                sampling=asked,
                expect_prompt_tokens=known if not turns else None,
                expect_output_tokens=output if shape.ignore_eos else None,
            )
        )
        known += output
    return tuple(turns)


def _output(answer: str | None, shape: Dataset, rng: random.Random, tokens: Tokens) -> int | None:
    """Length of an answer; None where nothing says it."""
    if shape.output_tokens is not None:
        return draw(rng, shape.output_tokens)
    return None if answer is None else max(1, tokens.count(answer))

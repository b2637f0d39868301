"""What a reply must look like: pure functions that raise when it does not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tuner.quality.asking import ProbeFailed, Reply


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of a completion that is as the protocol says.

    Attributes:
        text: The content; empty where the message has none.
        finish: Why it ended.
        message: The whole message.
        raw: The whole choice.
    """

    text: str
    finish: str
    message: dict[str, Any]
    raw: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion that is as the protocol says.

    Attributes:
        choices: In the order of their indexes.
        prompt_tokens: Tokens of the prompt.
        output_tokens: Tokens of all choices together.
        cached_tokens: Prompt tokens from the cache; None where the server did not say.
    """

    choices: tuple[Choice, ...]
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None

    @property
    def first(self) -> Choice:
        """The first choice."""
        return self.choices[0]


def completion(reply: Reply, *, choices: int = 1, most: int | None = None) -> Completion:
    """The completion in a reply.

    Args:
        reply: What came.
        choices: How many were asked for.
        most: Tokens that each may have.

    Raises:
        ProbeFailed: When there is none, or it contradicts itself.
    """
    if reply.status != 200:
        raise ProbeFailed(reply.words)
    try:
        found = _completion(reply.body)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as wrong:
        raise ProbeFailed(
            f"the completion lacks what the protocol says: {type(wrong).__name__} {wrong}"
        ) from None
    if len(found.choices) != choices:
        raise ProbeFailed(f"{len(found.choices)} choices where {choices} were asked for")
    if most is not None and found.output_tokens > most * choices:
        raise ProbeFailed(f"{found.output_tokens} tokens where {most * choices} were allowed")
    return found


def _completion(body: Any) -> Completion:
    usage = body["usage"]
    counts = [usage[name] for name in ("prompt_tokens", "completion_tokens")]
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise ValueError("usage says no token counts")
    if counts[0] + counts[1] != usage["total_tokens"]:
        raise ValueError("usage does not add up")
    raws = sorted(body["choices"], key=lambda raw: raw["index"])
    if [raw["index"] for raw in raws] != list(range(len(raws))):
        raise ValueError("the choices are not numbered from 0")
    details = usage.get("prompt_tokens_details") or {}
    return Completion(tuple(map(_choice, raws)), counts[0], counts[1], details.get("cached_tokens"))


def _choice(raw: dict[str, Any]) -> Choice:
    message = raw["message"]
    finish = raw["finish_reason"]
    text = message.get("content") or ""
    if not isinstance(finish, str) or not isinstance(text, str):
        raise TypeError("content or finish_reason is no text")
    if finish in {"abort", "error"}:
        raise ValueError(f"the server gave up: {finish}")
    return Choice(text, finish, message, raw)


def refused(reply: Reply, what: str) -> None:
    """A bad request must be refused as one.

    Raises:
        ProbeFailed: When it was accepted, failed inside the server, or never answered.
    """
    if reply.status is None or not 400 <= reply.status < 500:
        raise ProbeFailed(f"{what}: {reply.words}, where a 4xx belongs")


def json_beginning(text: str) -> bool:
    """Whether a text is JSON, or the beginning of some: for answers that were cut off."""
    text = text.lstrip()
    if not text:
        return True
    inside, open_ = _scan(text)
    ends, quote = (_ENDS_INSIDE, '"') if inside else (_ENDS_OUTSIDE, "")
    whole = [f"{text}{end}{quote}" for end in ends]
    close = "".join("}" if bracket == "{" else "]" for bracket in reversed(open_))
    # After the last token a key may lack its colon, and a comma what comes behind it.
    return any(_parses(f"{one}{more}{close}") for one in whole for more in _MORE)


_ENDS_OUTSIDE = (
    "", "0",
    "rue", "ue", "e", "alse", "lse", "se", "ull", "ll", "l",
)  # fmt: skip
"""What may lack at the end of a number or a word."""
_ENDS_INSIDE = ("", "n", "0", "00", "000", "0000")
"""What may lack of an escape at the end of a string."""
_MORE = ("", ":0", "0", '"":0')


def _scan(text: str) -> tuple[bool, list[str]]:
    """Whether a text ends inside a string, and the brackets that are open there."""
    inside = escaped = False
    open_: list[str] = []
    for char in text:
        if inside:
            inside = escaped or char != '"'
            escaped = not escaped and char == "\\"
        elif char == '"':
            inside = True
        elif char in "{[":
            open_.append(char)
        elif char in "}]" and open_:
            open_.pop()
    return inside, open_


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def structured(choice: Choice) -> Any:
    """The JSON of an answer; None where the answer was cut off before its end.

    Raises:
        ProbeFailed: When it is no JSON.
    """
    if choice.finish == "length":
        if not json_beginning(choice.text) or choice.text.strip()[:1] not in {"", "{"}:
            raise ProbeFailed(f"the answer does not begin as a JSON object: {choice.text[:80]!r}")
        return None
    try:
        return json.loads(choice.text)
    except (ValueError, RecursionError):
        raise ProbeFailed(f"the answer is no JSON: {choice.text[:80]!r}") from None

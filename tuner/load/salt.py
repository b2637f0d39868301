"""Salts: short texts that keep one trial's prompts out of another trial's prefix cache.

A prefix cache keeps blocks of tokens and finds a block only behind the very blocks that stood
before it. So it is enough that conversations of two trials differ in their first block. A salt is
some words of three letters: always as many bytes, and as many tokens too wherever each of the
words is one token, which holds for the byte-pair vocabularies in use and for tokenizers of bytes.
"""

from __future__ import annotations

import hashlib

from tuner.load.plan import Tool

_WORDS = (
    "red", "sun", "map", "box", "cat", "dog", "key", "sky",
    "ice", "oil", "bed", "cup", "hat", "leg", "arm", "war",
)  # fmt: skip
_LONGEST_NAME = 64  # of a function, in the API
WORDS = 12
"""Words of a salt, unless a plan with short prompts asks for less."""


def salt_of(*parts: object, words: int = WORDS) -> str:
    """The salt of a trial, a repeat, a level: whatever names it. Equal names give equal salts.

    Args:
        parts: What must be apart, for example the study, the trial's number and ``"warmup"``.
        words: Its length, at most 32; none gives an empty salt.
    """
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return _written([_WORDS[byte % 16] for byte in digest[:words]])


def reference_salt(words: int = WORDS) -> str:
    """A salt that no trial has, to measure a salt's length in tokens with."""
    return _written([_WORDS[0]] * words)


def all_words_salts(words: int = WORDS) -> list[str]:
    """Salts that between them hold every word at every place: one count each shows the spread."""
    return [_written([word] * words) for word in _WORDS]


def _written(words: list[str]) -> str:
    return " ".join(words) + "\n" if words else ""


def salted_tool(tool: Tool, salt: str, tool_choice: str) -> Tool:
    """A tool with the salt in front of its name.

    Some chat templates write the tools before the system message, and the name before all else.
    Where the name would grow too long, or the request asks for the tool by name, the salt goes in
    front of the description.
    """
    name = f"{salt.strip().replace(' ', '_')}_{tool.name}"
    if len(name) > _LONGEST_NAME or tool_choice.startswith("{"):
        return Tool(tool.name, salt.strip() + " " + tool.description, tool.parameters)
    return Tool(name, tool.description, tool.parameters)

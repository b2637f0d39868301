"""Salts: short texts that keep one trial's prompts out of another trial's prefix cache.

A prefix cache keeps blocks of tokens and finds a block only behind the very blocks that stood
before it. So it is enough that conversations of two trials differ in their first block. A salt is
twelve words of three letters: always as many bytes, and as many tokens too wherever each of the
words is one token, which holds for the byte-pair vocabularies in use and for tokenizers of bytes.
"""

from __future__ import annotations

import hashlib

from tuner.load.plan import Tool

_WORDS = (
    "red", "sun", "map", "box", "cat", "dog", "key", "sky",
    "ice", "oil", "bed", "cup", "hat", "leg", "arm", "war",
)  # fmt: skip
_COUNT = 12
SALT_BYTES = 4 * _COUNT
"""Length of every salt in bytes, its line end included."""


def salt_of(*parts: object) -> str:
    """The salt of a trial, a repeat, a level: whatever names it. Equal names give equal salts.

    Args:
        parts: What must be apart, for example the study, the trial's number and ``"warmup"``.
    """
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return " ".join(_WORDS[byte % 16] for byte in digest[:_COUNT]) + "\n"


def reference_salt() -> str:
    """A salt that no trial has, to measure a salt's length in tokens with."""
    return " ".join([_WORDS[0]] * _COUNT) + "\n"


def all_words_salts() -> list[str]:
    """Salts that between them hold every word at every place: one count each shows the spread."""
    return [" ".join([word] * _COUNT) + "\n" for word in _WORDS]


def salted_tool(tool: Tool, salt: str) -> Tool:
    """A tool with the salt in front of its name.

    Some chat templates write the tools before the system message, and the name before all else.
    """
    return Tool(f"{salt.strip().replace(' ', '_')}_{tool.name}", tool.description, tool.parameters)

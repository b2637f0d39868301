"""Texts of exact token lengths, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

from tuner.errors import TunerError
from tuner.load.tokens import Tokens

_TEXT = """
the a of to in is on at by for with from that this it be are was were has have had not but or and
if then when where who what how all any each few more most other some such only own same so than
too very can will just now first last long great little right big high small large next early
young important few public bad good new old time year people way day man thing woman life child
world school state family student group country problem hand part place case week company system
program question work number night point home water room mother area money story fact month lot
study book eye job word business issue side kind head house service friend father power hour game
line end member law car city name president team minute idea kid body information back parent face
level office door health person art war history party result
"""
_WORDS = _TEXT.split()
T = TypeVar("T")
_NEAR = 8
_FILLERS = (" a", ".", " of", "!", "a", "\n")
_TRIES = 64


class LengthUnreachable(TunerError):
    """Raised when no text of the asked number of tokens could be built."""


def exact_text(tokens: Tokens, rng: random.Random, length: int, *, prefix: str = "") -> str:
    """Words in a random order whose tokens are exactly so many.

    Only ``rng.random()`` is drawn from, whose values Python promises to keep.

    Args:
        tokens: The served tokenizer.
        rng: Where the words come from.
        length: Tokens that the text must have, those of ``prefix`` included.
        prefix: What the text begins with.

    Raises:
        LengthUnreachable: When the prefix is longer than that, or the tokenizer has no pieces small
            enough to fill the rest.
    """
    base = tokens.count(prefix) if prefix else 0
    if base > length:
        raise LengthUnreachable(f"a text of {length} tokens cannot hold its {base} first tokens")
    need = length - base
    if need == 0:
        return prefix
    words = [pick(rng, _WORDS) for _ in range(need)]  # no word has fewer than one token
    ends = list(accumulate(len(word) + 1 for word in words))
    joined = prefix + " ".join(words)
    text = _longest(tokens, joined, [len(prefix) + end - 1 for end in ends], length, len(prefix))
    return _fill(tokens, text, length)


def pick(rng: random.Random, items: Sequence[T]) -> T:
    """One of the items, at random."""
    return items[int(rng.random() * len(items))]


def between(rng: random.Random, low: int, high: int) -> int:
    """A whole number from low to high, both included, at random."""
    return low + int(rng.random() * (high - low + 1))


def _longest(tokens: Tokens, joined: str, cuts: list[int], length: int, start: int) -> str:
    """A start of a text, cut between words, with at most so many tokens, and few less.

    Counting may be a round trip to the server, so the cut is guessed from the tokens that a word
    has had so far, within bounds that only ever close in.
    """
    low, low_count = 0, 0  # words that fit, and their tokens
    high = len(cuts) + 1  # words that do not fit
    guess = len(cuts)
    while low + 1 < high and length - low_count > _NEAR:
        count = tokens.count(joined[: cuts[guess - 1]])
        if count <= length:
            low, low_count = guess, count
        else:
            high = guess
        step = int((length - low_count) * guess / count) if low else int(length * guess / count)
        guess = min(max(low + step, low + 1), high - 1)
    return joined[: cuts[low - 1]] if low else joined[:start]


def _fill(tokens: Tokens, text: str, length: int) -> str:
    """The text with small pieces at its end until it has exactly so many tokens."""
    count = tokens.count(text) if text else 0
    for _ in range(_TRIES):
        if count == length:
            return text
        for filler in _FILLERS:
            longer = text + filler * (length - count)
            if tokens.count(longer) == length:
                return longer
        for filler in _FILLERS:
            grown = tokens.count(text + filler)
            if count < grown <= length:
                text, count = text + filler, grown
                break
        else:
            break
    raise LengthUnreachable(
        f"no text of exactly {length} tokens was found; the nearest has {count}"
    )

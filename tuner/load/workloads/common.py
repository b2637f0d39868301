"""What the builders of workloads share."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import TypeVar

from tuner.load.salt import WORDS, reference_salt
from tuner.load.tokens import Tokens

T = TypeVar("T")


def generator(*parts: object) -> random.Random:
    """A source of draws that depends on nothing but these names."""
    return random.Random("/".join(map(str, parts)))  # noqa: S311  (texts and lengths, not secrets)


def sampling(*, temperature: float, ignore_eos: bool) -> str:
    """The sampling fields of a request. ``ignore_eos`` is vLLM's own and is only sent when true."""
    fields: dict[str, float | bool] = {"temperature": temperature}
    if ignore_eos:
        fields["ignore_eos"] = True
    return json.dumps(fields)


def salt_words(tokens: Tokens, shortest: int) -> int:
    """How many words of salt prompts have room for: at most half of the shortest prompt."""
    for words in range(WORDS, 0, -1):
        if 2 * tokens.count(reference_salt(words)) <= shortest:
            return words
    return 0


def shuffled(rng: random.Random, items: Iterable[T]) -> list[T]:
    """The items in a random order, by draws of ``rng.random()`` alone."""
    found = list(items)
    for last in range(len(found) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        found[last], found[other] = found[other], found[last]
    return found


def shares(total: int, parts: Iterable[float]) -> list[int]:
    """Whole numbers that add up to a total, as near as can be to the parts' proportions."""
    weights = list(parts)
    left, weight_left = total, sum(weights)
    found = []
    for weight in weights:
        share = round(left * weight / weight_left) if weight_left else 0
        found.append(share)
        left, weight_left = left - share, weight_left - weight
    return found

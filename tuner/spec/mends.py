"""Mends for a mistaken word or value: what was probably meant, and how it is written here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

MOST_KEYS = 24
"""Keys that one line can list and still be read."""

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?|true|false")
_PER_CENT = re.compile(r"(\d+(?:\.\d+)?) ?%")
_WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?) ?[A-Za-z/]+")
_NOTHING = frozenset({"no", "none", "never", "disabled", "false"})
_LONGEST_SHOWN = 40


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, whatever its capitals."""
    names = {name.casefold(): name for name in known}
    word = word.casefold()
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    begun = (name for name in names if len(word) > 2 and name.startswith(word))
    found = close[0] if close else next(begun, None)
    return None if found is None else names[found]


def meant(word: str, known: Iterable[str]) -> str:
    """What to write in place of an unknown word: the nearest one, else all that there are."""
    names = tuple(known)
    guess = nearest(word, names)
    return f"did you mean {guess}?" if guess else f"known are {', '.join(names) or 'none'}"


def known_keys(keys: Collection[str]) -> str:
    """The mend for a key that is like no other: all that may stand there, as far as a line holds them."""
    if not keys or len(keys) > MOST_KEYS:
        return "delete it"
    return f"known here are {', '.join(keys)}"


def shown(value: Any, words: Sequence[str]) -> str:
    """What stands there: by its kind, and where one of a few words is wanted, as it is written."""
    if words and isinstance(value, str) and len(value) <= _LONGEST_SHOWN:
        return f"the text {value!r}" if _NUMBER.fullmatch(value) else repr(value)
    if words and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return "a number with a point"
    names = {bool: "true or false", int: "a number", str: "text", tuple: "a list"}
    return {**names, dict: "a mapping", type(None): "empty"}[type(value)]


def among(value: Any, words: Sequence[str]) -> str | None:
    """Which of a few words was probably meant.

    Args:
        value: What stands there.
        words: Lists of words as pydantic says them: ``'process' or 'docker'``.
    """
    options = [one.strip("'") for words_ in words for one in re.split(r", | or ", words_)]
    if isinstance(value, str) and value in options:
        return "write it without quotes"  # the word is a number, and this is text
    if isinstance(value, str) and (guess := nearest(value, options)):
        return f"did you mean {guess}?"
    if "off" in options and (value is False or str(value).casefold() in _NOTHING):
        return "write off"
    return None


def share(value: Any, bound: Any) -> str | None:
    """The mend for per cent where a share is wanted."""
    if bound == 1 and isinstance(value, int | float) and 1 < value <= 100:
        return f"write a share: {value / 100:g} for {value:g} %"
    return None


def fitting(wanted: Sequence[str], value: Any) -> str | None:
    """How a value of the wrong kind is to be written, where that can be said."""
    if list(wanted) == ["text"] and isinstance(value, bool | int | float):
        return "quote it"
    if "text" in wanted:
        return None
    if "a list" in wanted and isinstance(value, str | int | float):
        short = len(str(value)) <= _LONGEST_SHOWN and not isinstance(value, bool)
        return f"write it in brackets: [{value}]" if short else "write it in brackets"
    if not isinstance(value, str):
        return None
    if _NUMBER.fullmatch(value):
        return "write it without quotes"
    if "a number" in wanted and (found := _PER_CENT.fullmatch(value)):
        return f"write a share: {float(found[1]) / 100:g}"
    if {"a number", "a whole number"} & set(wanted) and (found := _WITH_UNIT.fullmatch(value)):
        return f"write the number alone: {found[1]}"
    return None

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.load.text import LengthUnreachable, between, exact_text
from tuner.load.tokens import ByteTokens


class WordTokens:
    """Splits at words and marks, as byte-pair tokenizers do; long words are several tokens."""

    def __init__(self, piece: int) -> None:
        self.piece = piece
        self.asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        parts = re.findall(r" ?\w+|\s+|[^\w\s]", text)
        return sum(-(-len(part.strip() or " ") // self.piece) for part in parts)


class PairTokens:
    """Two bytes a token, so that odd lengths in bytes cost as much as even ones."""

    def count(self, text: str) -> int:
        return -(-len(text.encode()) // 2)


@given(st.integers(0, 3000), st.integers(0, 5))
def test_bytes(length: int, seed: int) -> None:
    text = exact_text(ByteTokens(), random.Random(seed), length)
    assert len(text) == length


@given(st.integers(0, 1500), st.integers(0, 5), st.integers(2, 9))
def test_words(length: int, seed: int, piece: int) -> None:
    tokens = WordTokens(piece)
    assert tokens.count(exact_text(tokens, random.Random(seed), length)) == length


@given(st.integers(0, 500), st.integers(0, 5))
def test_pairs(length: int, seed: int) -> None:
    tokens = PairTokens()
    assert tokens.count(exact_text(tokens, random.Random(seed), length)) == length


def test_the_server_is_asked_a_few_times_only() -> None:
    for piece in (2, 3, 9):
        tokens = WordTokens(piece)
        exact_text(tokens, random.Random(1), 20_000)
        assert tokens.asked <= 25


def test_the_same_seed_gives_the_same_text() -> None:
    texts = {exact_text(ByteTokens(), random.Random("a/1"), 300) for _ in range(3)}
    assert len(texts) == 1
    assert exact_text(ByteTokens(), random.Random("a/2"), 300) not in texts


def test_the_text_is_the_one_that_earlier_versions_made() -> None:
    text = exact_text(ByteTokens(), random.Random("pinned"), 60)
    assert text == "little kid place story child when if student can word day..."


def test_the_prefix_is_part_of_the_length() -> None:
    text = exact_text(ByteTokens(), random.Random(0), 40, prefix="red sun\n")
    assert text.startswith("red sun\n")
    assert len(text) == 40
    assert exact_text(ByteTokens(), random.Random(0), 8, prefix="red sun\n") == "red sun\n"


def test_a_prefix_that_does_not_fit() -> None:
    with pytest.raises(LengthUnreachable):
        exact_text(ByteTokens(), random.Random(0), 4, prefix="red sun\n")


def test_a_tokenizer_without_small_pieces() -> None:
    class Dozens:
        def count(self, text: str) -> int:
            return 12 * len(text)

    with pytest.raises(LengthUnreachable):
        exact_text(Dozens(), random.Random(0), 50)


@given(st.integers(-5, 5), st.integers(0, 9), st.integers(0, 9))
def test_between_stays_between(low: int, width: int, seed: int) -> None:
    rng = random.Random(seed)
    assert {between(rng, low, low + width) for _ in range(20)} <= set(range(low, low + width + 1))

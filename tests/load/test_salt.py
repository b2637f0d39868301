from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.load.salt import all_words_salts, reference_salt, salt_of


@given(st.lists(st.text(max_size=5), max_size=3), st.lists(st.text(max_size=5), max_size=3))
def test_salts_are_equal_when_their_names_are(one: list[str], other: list[str]) -> None:
    first, second = salt_of(*one), salt_of(*other)
    assert (first == second) == (one == other or "\0".join(one) == "\0".join(other))
    assert len(first.encode()) == len(second.encode()) == 48


def test_numbers_and_texts_name_alike() -> None:
    assert salt_of("study", 3) == salt_of("study", "3") != salt_of("study", 4)


def test_the_reference_has_the_length_of_all_and_is_nobodys() -> None:
    assert len(reference_salt()) == 48
    assert all(salt_of("study", trial) != reference_salt() for trial in range(200))
    words = {word for salt in all_words_salts() for word in salt.split()}
    assert {word for trial in range(50) for word in salt_of(trial).split()} == words


def test_salts_differ_within_the_first_block() -> None:
    salts = [salt_of("study", trial) for trial in range(3000)]
    assert len({salt[:32] for salt in salts}) == len(salts)


def test_shorter_salts() -> None:
    assert salt_of("a", words=0) == reference_salt(0) == ""
    assert salt_of("a", words=3).split() == salt_of("a").split()[:3]
    assert len(salt_of("a", words=3)) == len(reference_salt(3)) == 12

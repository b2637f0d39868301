from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.samples import PROCESS
from tuner.export.formats import Form, files
from tuner.export.served import by_flag, deployed_env


@given(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,62}", fullmatch=True))
def test_a_studys_name_becomes_one_that_every_form_takes(study: str) -> None:
    name = replace(PROCESS, study=study).name
    assert len(name) <= 60
    assert name[0].isalpha()
    assert name[-1].isalnum()
    assert all(c.isalnum() or c == "-" for c in name)


@given(st.lists(st.sampled_from(["--a", "-b", "c", "--d=e", ""])))
def test_pieces_are_the_command_again(words: list[str]) -> None:
    assert tuple(word for piece in by_flag(tuple(words)) for word in piece) == tuple(words)


def test_what_only_helps_to_look_is_left_out() -> None:
    env = {"Z": "1", "BI100_CACHE_TRACE": "1", "TUNER_X": "1", "HF_HOME": "/x", "A": "2"}
    assert list(deployed_env(env, ("HF_*",)).items()) == [("A", "2"), ("Z", "1")]


@pytest.mark.parametrize("form", ["shell", "systemd"])
def test_the_same_deployment_is_the_same_bytes_beside_its_origin(form: Form) -> None:
    one = files(form, PROCESS, {"b": 1, "a": 2})
    assert one == files(form, PROCESS, {"a": 2, "b": 1})
    name, beside = one
    assert beside == name.rsplit(".", 1)[0] + ".provenance.json"
    assert all("\r" not in text and text.endswith("\n") for text in one.values())

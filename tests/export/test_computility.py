from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import TunerError
from tuner.export.computility import RunFile, parse, render, run_file

WORDS = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\x85\u2028\u2029\ufeff"),
    max_size=40,
)
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True)


@given(st.lists(WORDS, min_size=1), st.dictionaries(NAMES, WORDS), st.integers(1, 64))
def test_what_is_written_reads_back_the_same(
    command: list[str], env: dict[str, str], concurrency: int
) -> None:
    content = RunFile(concurrency, tuple(command), tuple(sorted(env.items())))
    assert parse(render(content)) == content
    assert b"\r" not in render(content)


def test_numbers_stay_strings_and_the_order_of_the_environment_does_not_matter() -> None:
    command = (
        "python3",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--max-model-len",
        "262144",
        "-tp",
        "4",
    )
    one = run_file(command, {"B": "1", "A": "true"}, concurrency=1)
    two = run_file(command, {"A": "true", "B": "1"}, concurrency=1)
    assert render(one) == render(two)
    data = yaml.safe_load(render(one))
    assert list(data) == ["concurrency", "command", "env"]
    assert data["command"][4] == "262144"
    assert data["env"] == [{"name": "A", "value": "true"}, {"name": "B", "value": "1"}]


def test_diagnostics_never_leave_the_study() -> None:
    env = {
        "ENGINEX_PROFILE_DECODE": "1",
        "BI100_CACHE_TRACE": "1",
        "CUDA_LAUNCH_BLOCKING": "1",
        "MINE": "1",
        "OK": "1",
    }
    assert run_file(("x",), env, concurrency=1, drop=("MINE",)).env == (("OK", "1"),)


@pytest.mark.parametrize(
    "text",
    [
        "concurrency: 1\ncommand: [x]\n",
        "concurrency: '1'\ncommand: [x]\nenv: []\n",
        "concurrency: true\ncommand: [x]\nenv: []\n",
        "concurrency: 1\ncommand: [x, 4]\nenv: []\n",
        "concurrency: 1\ncommand: [x]\nenv: []\nport: 8000\n",
        "[]",
    ],
)
def test_a_file_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(TunerError):
        parse(text.encode())

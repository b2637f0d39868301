from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.fidelity.steplog import read_steps, steps_of_log, write_steps
from tuner.fidelity.steptime import Batch, StepRecord

LOG = """\
(APIServer pid=9) INFO 11-30 05:10:01 [loggers.py:203] Iteration(41): 1 context requests, 2044 context tokens, \
3 generation requests, 3 generation tokens, iteration elapsed time: 210.50 ms, CPU KV cache usage: 10.0%
(APIServer pid=9) INFO:     127.0.0.1:5000 - "POST /v1/chat/completions HTTP/1.1" 200 OK
(APIServer pid=9) INFO 11-30 05:10:01 [loggers.py:203] Iteration(42): 0 context requests, 0 context tokens, \
4 generation requests, 4 generation tokens, iteration elapsed time: 9.75 ms, CPU KV cache usage: 12.5%
(APIServer pid=9) INFO 11-30 05:10:01 [loggers.py:203] Iteration(43): 0 context requests, 0 context tokens, \
0 generation requests, 0 generation tokens, iteration elapsed time: 0.00 ms (dummy), CPU KV cache usage: 0.0%
"""


def test_a_log_of_vllm_by_hand() -> None:
    found = steps_of_log(LOG.splitlines(), pool_tokens=10_000)
    assert found == [
        # Of 1000 tokens in use each of four sequences holds 250; the prompt has more than that.
        StepRecord(Batch(2044, 2044 * (2044 - 2043 / 2), 3, 750.0), 0.2105),
        StepRecord(Batch(0, 0.0, 4, 1250.0), 9.75 / 1000),
    ]


def test_a_prompt_that_goes_on_attends_to_what_it_had() -> None:
    line = (
        LOG.splitlines()[0]
        .replace("2044 context", "100 context")
        .replace("3 generation", "0 generation")
    )
    (found,) = steps_of_log([line], pool_tokens=10_000)
    assert found.batch.prefill_work == 100 * (1000 - 99 / 2)


records = st.builds(
    StepRecord,
    st.builds(
        Batch,
        st.integers(0, 10**6),
        st.floats(0, 1e12),
        st.integers(0, 4096),
        st.floats(0, 1e9),
    ),
    st.floats(1e-6, 1e4),
    st.none() | st.integers(0, 512),
)


@given(st.lists(records, max_size=5))
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, steps: list[StepRecord]
) -> None:
    path = tmp_path_factory.mktemp("steps") / "steps.jsonl"
    path.write_text(write_steps(steps))
    assert read_steps(path) == steps


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "steps.jsonl:2: line: invalid json"),
        ('{"prefill_tokens": 1}', "steps.jsonl:2: prefill_work: field required"),
        (
            '{"prefill_tokens":1,"prefill_work":1,"decode_seqs":-1,"kv_tokens":0,"seconds":1}',
            "decode_seqs: input should be greater",
        ),
        (
            '{"prefill_tokens":1,"prefill_work":1,"decode_seqs":1,"kv_tokens":0,"seconds":0}',
            "seconds: input should be greater",
        ),
    ],
)
def test_what_is_no_step_record_is_told(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text("\n" + line + "\n")
    with pytest.raises(UserError, match=message):
        read_steps(path)


def test_a_line_that_enginex_wrote(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(
        '{"number":3,"prefill_tokens":0,"prefill_work":0,"prefill_seqs":0,"decode_seqs":1,'
        '"decode_tokens":1,"kv_tokens":329,"cached_tokens":0,"experts":8,"graph":"none",'
        '"seconds":0.00766,"at":1796028641.530471,"pid":16147}\n'
    )
    assert read_steps(path) == [StepRecord(Batch(0, 0.0, 1, 329.0), 0.00766, 8)]

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from enginex.observe.step import Step, step_of


def plan(new: dict[str, tuple[int, int]], running: dict[str, tuple[int, int]]) -> Any:
    """A scheduler's plan; by sequence the tokens computed before and those of the step."""
    return SimpleNamespace(
        scheduled_new_reqs=[
            SimpleNamespace(req_id=name, num_computed_tokens=done)
            for name, (done, _) in new.items()
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(running), num_computed_tokens=[done for done, _ in running.values()]
        ),
        num_scheduled_tokens={name: n for name, (_, n) in {**new, **running}.items()},
    )


def test_a_step_worked_out_by_hand() -> None:
    # a: 6 tokens after 16 from the cache; b: the rest of its prompt, 2 of 10; c: decodes after 10; d: likewise, 20.
    mixed = plan({"a": (16, 6)}, {"b": (8, 2), "c": (10, 1), "d": (20, 1)})
    step = step_of(mixed, {"a": 22, "b": 10, "c": 7, "d": 20}, 5)
    assert step.number == 5
    assert step.kind == "prefill"
    assert (step.prefill_tokens, step.prefill_seqs) == (8, 2)
    assert step.prefill_work == sum(range(17, 23)) + 9 + 10
    assert (step.decode_seqs, step.decode_tokens, step.kv_tokens) == (2, 2, 11 + 21)
    assert step.cached_tokens == 16


def test_a_step_of_answers_alone_is_decode() -> None:
    assert step_of(plan({}, {"a": (9, 1)}), {"a": 4}, 1).kind == "decode"


def test_a_sequence_that_waits_in_this_step_is_left_out() -> None:
    waiting = plan({}, {"a": (9, 1)})
    waiting.scheduled_cached_reqs.req_ids.append("b")
    waiting.scheduled_cached_reqs.num_computed_tokens.append(3)
    assert step_of(waiting, {"a": 4}, 1).decode_seqs == 1


@given(prompt=st.integers(1, 300), cuts=st.lists(st.integers(1, 60), min_size=1, max_size=30))
def test_a_prompt_in_chunks_is_the_same_work_as_in_one(prompt: int, cuts: list[int]) -> None:
    whole = Step()
    whole.add(0, prompt, prompt)
    parts, done = Step(), 0
    for cut in cuts:
        tokens = min(cut, prompt - done)
        if tokens:
            parts.add(done, tokens, prompt)
            done += tokens
    if done < prompt:
        parts.add(done, prompt - done, prompt)
    assert parts.prefill_tokens == whole.prefill_tokens == prompt
    assert parts.prefill_work == whole.prefill_work == prompt * (prompt + 1) // 2

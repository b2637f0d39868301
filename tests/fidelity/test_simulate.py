from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fidelity.loads import Every, Mixed, load, loads, schedulers
from tuner.fidelity.asked import Asked
from tuner.fidelity.blocks import PoolTooSmall
from tuner.fidelity.simulate import Scheduler, Simulated, simulate
from tuner.fidelity.steptime import Batch


def traced(asked: Asked, scheduler: Scheduler) -> tuple[Simulated, list[tuple[int, int, int]]]:
    """The result with steps of a second, and (prefill tokens, decode sequences, KV tokens) of each."""
    found = simulate(asked, scheduler, Every(), one_by_one=True)
    return found, [
        (s.batch.prefill_tokens, s.batch.decode_seqs, int(s.batch.kv_tokens)) for s in found.steps
    ]


def test_one_request_by_hand() -> None:
    # Ten tokens in steps of four; the third gives the first token of the answer, two more follow.
    found, steps = traced(load([[(10, 3)]]), Scheduler(4, 4, 10, block_tokens=4))
    assert steps == [(4, 0, 0), (4, 0, 0), (2, 0, 0), (0, 1, 11), (0, 1, 12)]
    record = found.records[0]
    assert (record.sent, record.first_token, record.end) == (0, 3, 5)
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens) == (10, 0, 3)
    assert found.computed_tokens == 12  # the last token's KV is never computed


def test_running_sequences_come_first_and_share_the_budget() -> None:
    found, steps = traced(
        load([[(4, 3)], [(6, 1)]], concurrency=2), Scheduler(2, 5, 20, block_tokens=4)
    )
    # Step 1: all of A and one of B. Step 2: A's decode and four of B. Step 3: A's decode and B's last.
    assert steps == [(5, 0, 0), (4, 1, 5), (1, 1, 6)]
    assert [r.end for r in found.records] == [3, 3]
    assert found.records[1].first_token == 3


def test_the_limit_of_sequences_holds_the_third_back() -> None:
    found, steps = traced(
        load([[(2, 2)], [(2, 2)], [(2, 1)]], concurrency=3), Scheduler(2, 50, 20, block_tokens=4)
    )
    assert steps == [(4, 0, 0), (0, 2, 6), (2, 0, 0)]
    assert found.records[2].first_token == 3
    assert found.steps[0].waiting == 1


def test_without_chunks_a_prompt_waits_until_it_fits_whole() -> None:
    scheduler = Scheduler(4, 8, 20, block_tokens=4, chunked_prefill=False)
    _, steps = traced(load([[(5, 2)], [(6, 1)]], concurrency=2), scheduler)
    assert steps == [(5, 0, 0), (6, 1, 6)]


def test_long_prompts_are_cut_so_that_others_may_share_the_step() -> None:
    scheduler = Scheduler(4, 50, 40, block_tokens=4, long_prefill_tokens=3)
    _, steps = traced(load([[(7, 1)], [(2, 1)]], concurrency=2), scheduler)
    assert steps == [(5, 0, 0), (3, 0, 0), (1, 0, 0)]


def test_the_next_turn_finds_its_conversation_in_the_cache() -> None:
    found, steps = traced(load([[(9, 4), (6, 1)]]), Scheduler(1, 50, 20, block_tokens=4))
    # 13 tokens are known and 12 of them computed, three blocks of four; 19 - 12 = 7 are left.
    assert found.records[1].prompt_tokens == 19
    assert found.records[1].cached_tokens == 12
    assert steps[-1] == (7, 0, 0)


def test_a_common_beginning_is_computed_once() -> None:
    asked = load([[(3, 1)], [(3, 1)]], shared=10)
    found, _ = traced(asked, Scheduler(1, 50, 20, block_tokens=4))
    assert [r.cached_tokens for r in found.records] == [0, 8]
    off, _ = traced(asked, Scheduler(1, 50, 20, block_tokens=4, prefix_caching=False))
    assert [r.cached_tokens for r in off.records] == [0, 0]


def test_the_last_token_of_a_prompt_is_computed_even_where_all_is_cached() -> None:
    twice = load([[(8, 1)]]).sessions[0]
    asked = Asked("w", (twice, twice), 1, threaded=True)
    found, steps = traced(asked, Scheduler(1, 50, 20, block_tokens=4))
    assert found.records[1].cached_tokens == 4
    assert steps[1] == (4, 0, 0)


def test_what_is_computed_in_the_same_step_is_not_cached_yet() -> None:
    asked = load([[(3, 2)], [(3, 2)]], shared=8, concurrency=2)
    found, _ = traced(asked, Scheduler(2, 50, 20, block_tokens=4))
    assert [r.cached_tokens for r in found.records] == [0, 0]


def test_the_last_to_run_is_preempted_and_computed_again() -> None:
    # Six blocks of two: A and B hold three each after their prefill. In step 3 A needs a fourth.
    scheduler = Scheduler(2, 50, 6, block_tokens=2, prefix_caching=False)
    found, steps = traced(load([[(5, 4)], [(5, 4)]], concurrency=2), scheduler)
    assert found.preemptions == 1
    assert steps[:2] == [(10, 0, 0), (0, 2, 12)]
    assert steps[2:4] == [(0, 1, 7), (0, 1, 8)]
    # B begins again with the five tokens of its prompt and the two it had generated.
    assert steps[4] == (7, 0, 0)
    assert [r.end for r in found.records] == [4, 6]
    assert found.records[1].first_token == 1
    assert found.computed_tokens == 8 + 8 + 6


def test_a_preempted_sequence_finds_what_was_not_taken_from_it() -> None:
    scheduler = Scheduler(2, 50, 6, block_tokens=2)
    found, steps = traced(load([[(5, 4)], [(5, 4)]], concurrency=2), scheduler)
    assert found.preemptions == 1
    # One of B's three blocks, its last, was taken by A.
    assert steps[4] == (3, 0, 0)
    assert found.records[1].cached_tokens == 0


def test_an_open_loop_waits_for_nobody() -> None:
    asked = load([[(2, 5)], [(2, 1)]], concurrency=None, arrivals=[0.0, 1.5])
    found, _ = traced(asked, Scheduler(4, 50, 20, block_tokens=4))
    assert found.records[1].scheduled == 1.5
    assert found.records[1].first_token == 3
    late = load([[(2, 1)]], concurrency=None, arrivals=[10.0])
    assert simulate(late, Scheduler(4, 50, 20), Every()).wall_s == 11


def test_thinking_keeps_the_engine_idle() -> None:
    found, _ = traced(load([[(2, 2), (2, 1)]], think=5.0), Scheduler(1, 50, 20, block_tokens=4))
    assert found.records[1].scheduled == 7
    assert found.wall_s == 8


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (Scheduler(1, 50, 3, block_tokens=4), "needs 4 KV blocks, and there are 3"),
        (Scheduler(1, 8, 50, chunked_prefill=False), "may not be chunked"),
        (Scheduler(0, 8, 50), "not run a single token"),
    ],
)
def test_an_engine_that_cannot_serve_one_request_is_an_error(
    scheduler: Scheduler, message: str
) -> None:
    with pytest.raises(PoolTooSmall, match=message):
        simulate(load([[(10, 4)]]), scheduler, Every())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_many_steps_at_once_are_the_same_as_one_by_one(data: st.DataObject) -> None:
    asked = data.draw(loads)
    scheduler = data.draw(schedulers(asked))
    fast = simulate(asked, scheduler, Mixed())
    slow = simulate(asked, scheduler, Mixed(), one_by_one=True)
    assert fast.wall_s == pytest.approx(slow.wall_s)
    assert fast.preemptions == slow.preemptions
    assert fast.computed_tokens == slow.computed_tokens
    for mine, theirs in zip(fast.records, slow.records, strict=True):
        assert mine.cached_tokens == theirs.cached_tokens
        assert mine.first_token == pytest.approx(theirs.first_token)
        assert mine.end == pytest.approx(theirs.end)
    assert sum(step.count for step in fast.steps) == len(slow.steps)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_tokens_and_blocks_are_conserved(data: st.DataObject) -> None:
    asked = data.draw(loads)
    scheduler = data.draw(schedulers(asked))
    found = simulate(asked, scheduler, Mixed(), one_by_one=True)
    assert len(found.records) == asked.requests
    batches = [step.batch for step in found.steps]
    assert sum(b.tokens for b in batches) == found.computed_tokens
    assert max(b.tokens for b in batches) <= scheduler.max_num_batched_tokens
    assert max(b.decode_seqs for b in batches) <= scheduler.max_num_seqs
    assert all(0 <= step.free_blocks <= scheduler.blocks for step in found.steps)
    assert found.steps[-1].free_blocks == scheduler.blocks
    needed = sum(
        (r.prompt_tokens or 0) - (r.cached_tokens or 0) + (r.output_tokens or 0) - 1
        for r in found.records
    )
    if found.preemptions == 0:
        assert found.computed_tokens == needed
    for record in found.records:
        assert record.sent is not None
        assert record.first_token is not None
        assert record.end is not None
        assert record.sent < record.first_token <= record.end
        assert 0 <= (record.cached_tokens or 0) < (record.prompt_tokens or 0)
    if not scheduler.prefix_caching:
        assert sum(r.cached_tokens or 0 for r in found.records) == 0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 8), st.integers(4, 30), st.integers(1, 20), st.integers(1, 6), st.integers(0, 20)
)
def test_more_room_and_more_sequences_never_make_equal_requests_slower(
    sessions: int, prompt: int, output: int, seqs: int, spare: int
) -> None:
    # A step costs the same whatever it holds, so to hold more in it can only help.
    asked = load([[(prompt, output)]] * sessions, concurrency=sessions)
    least = -(-(prompt + output) // 4)

    def wall(seqs: int, blocks: int) -> float:
        scheduler = Scheduler(seqs, 512, blocks, block_tokens=4, prefix_caching=False)
        return simulate(asked, scheduler, Every()).wall_s

    roomy = least * sessions
    assert wall(seqs + 1, roomy) <= wall(seqs, roomy)
    assert wall(seqs, roomy) <= wall(seqs, min(least + spare, roomy))


@pytest.mark.parametrize(("seqs", "theirs"), [(2, 96.97), (8, 321.81), (32, 957.37)])
def test_another_simulator_of_the_same_scheduler_agrees(seqs: int, theirs: float) -> None:
    # Output tokens a second of 400 requests of 4096 + 128 tokens, 32 at a time; a step takes 80 ms
    # where it has prefill and 20 ms where it has decode sequences. The figures are those of
    # aisimulate 0.1.0.dev1, a scheduler written in Rust.
    class Fixed(Every):
        def step(self, batch: Batch) -> float:
            return 0.08 * bool(batch.prefill_tokens) + 0.02 * bool(batch.decode_seqs)

    asked = load([[(4096, 128)]] * 400, concurrency=32)
    found = simulate(asked, Scheduler(seqs, 8192, 100_000), Fixed())
    assert 400 * 128 / found.wall_s == pytest.approx(theirs, rel=0.008)

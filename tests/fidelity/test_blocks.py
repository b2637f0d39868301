from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tuner.fidelity.blocks import BlockPool


def filled(pool: BlockPool, keys: list[int]) -> list[int]:
    held = pool.take(len(keys))
    pool.fill(held, keys, 0, len(keys))
    return held


def test_what_was_filled_is_found_again_after_it_was_freed() -> None:
    pool = BlockPool(4, caching=True)
    held = filled(pool, [1, 2, 3])
    assert pool.hits([1, 2, 3, 4], 4) == 3
    assert pool.hits([1, 2, 3], 2) == 2
    pool.release(held)
    assert pool.available == 4
    assert pool.hits([1, 2, 9], 3) == 2
    assert pool.idle([1, 2]) == 2
    pool.share([1, 2])
    assert pool.available == 2
    assert pool.idle([1, 2]) == 0


def test_the_end_of_the_oldest_sequence_goes_first() -> None:
    pool = BlockPool(4, caching=True)
    pool.release(filled(pool, [1, 2]))
    pool.release(filled(pool, [3, 4]))
    pool.take(1)
    assert pool.hits([1, 2], 2) == 1
    assert pool.hits([3, 4], 2) == 2
    pool.take(2)
    assert pool.hits([1], 1) == 0
    assert pool.hits([3, 4], 2) == 1


def test_sharing_makes_a_block_young_again() -> None:
    pool = BlockPool(3, caching=True)
    pool.release(filled(pool, [1]))
    pool.release(filled(pool, [2]))
    pool.share([1])
    pool.release([1])
    pool.take(2)  # the fresh one, and then the one that was free longest
    assert pool.hits([1], 1) == 1
    assert pool.hits([2], 1) == 0


def test_a_stretch_that_is_cached_already_stays_without_a_key() -> None:
    pool = BlockPool(4, caching=True)
    first, second = filled(pool, [7]), filled(pool, [7])
    assert first == [7]
    assert second[0] < 0
    pool.release(second)
    assert pool.hits([7], 1) == 1


def test_without_caching_nothing_is_found() -> None:
    pool = BlockPool(4, caching=False)
    pool.release(filled(pool, [1, 2]))
    assert pool.hits([1, 2], 2) == 0
    assert pool.available == 4


@settings(max_examples=40, stateful_step_count=30, deadline=None)
class Pool(RuleBasedStateMachine):
    """Whatever sequences do, no block is lost or used for two things."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(9, caching=True)
        self.sequences: list[list[int]] = []

    @rule(family=st.integers(0, 2), length=st.integers(1, 5))
    def begin(self, family: int, length: int) -> None:
        keys = [100 * family + i + 1 for i in range(length)]
        hits = self.pool.hits(keys, length)
        shared = keys[:hits]
        if length - hits > self.pool.available - self.pool.idle(shared):
            return
        self.pool.share(shared)
        held = [*shared, *self.pool.take(length - hits)]
        self.pool.fill(held, keys, hits, length)
        self.sequences.append(held)

    @precondition(lambda self: self.sequences)
    @rule(index=st.integers(0, 20))
    def end(self, index: int) -> None:
        self.pool.release(self.sequences.pop(index % len(self.sequences)))

    @invariant()
    def every_block_is_accounted_for(self) -> None:
        used = {block for held in self.sequences for block in held}
        assert self.pool.in_use() == len(used)
        assert self.pool.available + len(used) == 9


TestPool = Pool.TestCase

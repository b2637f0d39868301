"""The KV pool as vLLM keeps it: blocks, a prefix cache over full ones, and a queue of free ones.

Freed blocks keep what they hold until they are needed again, those that were freed longest ago
first; of one sequence the last blocks go first, so that what others share stays longest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from tuner.errors import TunerError


class PoolTooSmall(TunerError):
    """Raised when a KV pool cannot hold a single request: no load at all could be served."""


class BlockPool:
    """Blocks that are free, cached or in use.

    Blocks with a key hold a full stretch of some sequence and can be found again; the others are
    numbered below 0.

    Args:
        blocks: How many blocks there are.
        caching: Whether full blocks are found again.
    """

    def __init__(self, blocks: int, *, caching: bool) -> None:
        self.blocks = blocks
        self._caching = caching
        self._fresh = blocks
        self._free: OrderedDict[int, None] = OrderedDict()
        self._users: dict[int, int] = {}
        self._states: set[int] = set()
        self._next = -1

    @property
    def available(self) -> int:
        """Blocks that can be taken, with or without something in them."""
        return self._fresh + len(self._free)

    def hits(self, keys: Sequence[int], limit: int) -> int:
        """How many of the first blocks of a sequence are cached.

        Args:
            keys: Keys of its full blocks, in order.
            limit: The most that may be taken from the cache.
        """
        if not self._caching:
            return 0
        users, found = self._users, 0
        for key in keys[:limit]:
            if key not in users:
                break
            found += 1
        return found

    def keep_state(self, key: int) -> None:
        """Remember the recurrent state at the end of a cached block, until the block is taken."""
        if key in self._users:
            self._states.add(key)

    def resumable(self, keys: Sequence[int], hits: int) -> int:
        """How many of the cached first blocks end with a recurrent state from which to go on."""
        while hits and keys[hits - 1] not in self._states:
            hits -= 1
        return hits

    def idle(self, keys: Sequence[int]) -> int:
        """How many of some cached blocks nobody uses: taking them makes fewer available."""
        users = self._users
        return sum(users[key] == 0 for key in keys)

    def share(self, keys: Sequence[int]) -> None:
        """Use cached blocks."""
        users, free = self._users, self._free
        for key in keys:
            count = users[key]
            if count == 0:
                del free[key]
            users[key] = count + 1

    def take(self, count: int) -> list[int]:
        """Take blocks to write to; they must be available."""
        taken = range(self._next, self._next - count, -1)
        self._next -= count
        fresh = min(count, self._fresh)
        self._fresh -= fresh
        for _ in range(count - fresh):
            old, _ = self._free.popitem(last=False)
            self._users.pop(old, None)
            self._states.discard(old)
        return list(taken)

    def fill(self, held: list[int], keys: Sequence[int], start: int, stop: int) -> None:
        """Give blocks of a sequence that became full their keys, so that they are found again.

        A stretch that is cached already, because another sequence computed it at the same time,
        stays without a key.
        """
        if not self._caching:
            return
        users = self._users
        for index in range(start, stop):
            key = keys[index]
            if key not in users:
                users[key] = 1
                held[index] = key

    def release(self, held: Sequence[int]) -> None:
        """Give the blocks of a sequence back, the last first."""
        users, free = self._users, self._free
        for block in reversed(held):
            if block < 0:
                free[block] = None
                continue
            users[block] -= 1
            if users[block] == 0:
                free[block] = None

    def in_use(self) -> int:
        """Blocks that cannot be taken."""
        return self.blocks - self.available

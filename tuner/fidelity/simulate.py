"""vLLM's V1 scheduler, step by step, with a model in place of the engine.

What is modelled is what decides which sequences share a step: running sequences first, a budget of
tokens, a limit of sequences, chunked prefill, the prefix cache by block, the KV pool, and
preemption by recomputing. What a step takes comes from a :class:`~tuner.fidelity.steptime.StepModel`.
Stretches of steps in which nothing is decided are taken at once.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tuner.fidelity.asked import Asked, AskedTurn, Keys
from tuner.fidelity.blocks import BlockPool, PoolTooSmall
from tuner.fidelity.recurrent import Chunking, Prompt, clip, keeps_state
from tuner.fidelity.steptime import Batch
from tuner.load.record import Record


class StepTime(Protocol):
    """What is asked of a model of step times."""

    def step(self, batch: Batch) -> float:
        """Seconds of one step."""

    def growth(self, batch: Batch) -> float:
        """Seconds by which the next step of the same decode sequences is longer."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The engine's settings that decide what shares a step.

    Attributes:
        max_num_seqs: Sequences that run at a time.
        max_num_batched_tokens: Tokens of one step.
        blocks: Blocks of the KV pool.
        block_tokens: Tokens of a block.
        prefix_caching: Whether full blocks are found again.
        chunked_prefill: Whether a prompt may be computed in parts.
        long_prefill_tokens: The most tokens of one prompt in one step; 0 for no limit.
        state_tokens: For models with recurrent layers, the tokens by which their states may be kept
            (vLLM's unit of prefix hashes); 0 for models without. See :mod:`tuner.fidelity.recurrent`.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    blocks: int
    block_tokens: int = 16
    prefix_caching: bool = True
    chunked_prefill: bool = True
    long_prefill_tokens: int = 0
    state_tokens: int = 0

    @property
    def recurrent(self) -> bool:
        """Whether a prefix is found again only where a recurrent state was kept."""
        return self.state_tokens > 0 and self.prefix_caching


@dataclass(frozen=True, slots=True)
class Step:
    """Steps that were alike: the same decode sequences, one after another, or a single step.

    Attributes:
        start: When the first began, seconds from the start of the load.
        seconds: What all of them took together.
        count: How many.
        batch: What the first of them held; each next one reads ``decode_seqs`` more KV tokens.
        waiting: Requests that waited meanwhile.
        free_blocks: Blocks that could have been taken after the last.
    """

    start: float
    seconds: float
    count: int
    batch: Batch
    waiting: int
    free_blocks: int


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a load came to.

    Attributes:
        records: One a request, as the client would have seen it, without the times of chunks.
        wall_s: From the start of the load to the end of its last request.
        steps: Every step, those that were alike together.
        preemptions: How often a sequence lost its blocks and was computed again.
        computed_tokens: Prompt and answer tokens that went through the layers.
    """

    records: tuple[Record, ...]
    wall_s: float
    steps: tuple[Step, ...]
    preemptions: int
    computed_tokens: int


def simulate(
    load: Asked, scheduler: Scheduler, step_time: StepTime, *, one_by_one: bool = False
) -> Simulated:
    """Serve a load.

    Args:
        load: The load.
        scheduler: The engine's settings.
        step_time: What a step takes; above 0 for every batch.
        one_by_one: Take every step on its own, for a trace. The result is the same.

    Raises:
        PoolTooSmall: When the longest sequence does not fit into the KV pool, or a prompt into one
            step where it may not be parted.
    """
    _check(load, scheduler)
    return _Run(load, scheduler, step_time, one_by_one=one_by_one).serve()


def _check(load: Asked, scheduler: Scheduler) -> None:
    longest = load.longest()
    needed = math.ceil(longest / scheduler.block_tokens)
    if needed > scheduler.blocks:
        raise PoolTooSmall(
            f"a request of {longest} tokens needs {needed} KV blocks, and there are {scheduler.blocks}"
        )
    if scheduler.max_num_seqs < 1 or scheduler.max_num_batched_tokens < 1:
        raise PoolTooSmall("the scheduler may not run a single token")
    if not scheduler.chunked_prefill and longest > scheduler.max_num_batched_tokens:
        raise PoolTooSmall(
            f"a request of {longest} tokens does not fit into a step of "
            f"{scheduler.max_num_batched_tokens}, and prefill may not be chunked"
        )


@dataclass(slots=True, eq=False)
class _Sequence:
    """A request on its way.

    Attributes:
        total: Tokens known so far: the prompt and what was generated.
        computed: Tokens whose KV is in the pool.
        held: Its blocks.
        full: How many of them were given their keys.
        junction: Where a cached prefix ended that had no state to go on from.
    """

    session: int
    turn: int
    asked: AskedTurn
    keys: list[int]
    prompt: int
    due: float
    total: int
    computed: int = 0
    generated: int = 0
    held: list[int] = field(default_factory=list)
    full: int = 0
    junction: int = 0
    cached: int | None = None
    first: float | None = None

    @property
    def decoding(self) -> bool:
        return self.total - self.computed == 1 and self.generated > 0


class _Run:
    """One load in the making."""

    def __init__(
        self, load: Asked, scheduler: Scheduler, step_time: StepTime, *, one_by_one: bool
    ) -> None:
        self._load = load
        self._limits = scheduler
        self._time = step_time
        self._one_by_one = one_by_one
        self._pool = BlockPool(scheduler.blocks, caching=scheduler.prefix_caching)
        self._chunking = Chunking(
            scheduler.block_tokens,
            max(1, scheduler.state_tokens),
            min(
                scheduler.max_num_batched_tokens,
                scheduler.long_prefill_tokens or scheduler.max_num_batched_tokens,
            ),
        )
        self._keys = [Keys(scheduler.block_tokens) for _ in load.sessions]
        self._length = [0] * len(load.sessions)
        self._due: list[tuple[float, int, int]] = []
        self._unopened = deque(n for n, turns in enumerate(load.sessions) if turns)
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._records: list[Record] = []
        self._steps: list[Step] = []
        self._now = 0.0
        self._preemptions = 0
        self._computed = 0

    def serve(self) -> Simulated:
        """Run until every request has its answer."""
        self._open_first()
        while self._due or self._waiting or self._running:
            self._arrive()
            if not self._running and not self._waiting:
                self._now = max(self._now, self._due[0][0])
                continue
            self._advance()
        wall = max((r.end for r in self._records if r.end is not None), default=0.0)
        order = sorted(self._records, key=lambda r: (r.session, r.turn))
        return Simulated(tuple(order), wall, tuple(self._steps), self._preemptions, self._computed)

    # --- arrivals --------------------------------------------------------------------------------

    def _open_first(self) -> None:
        for _ in range(self._load.concurrency or len(self._unopened)):
            self._open_next(0.0)

    def _open_next(self, now: float) -> None:
        if self._unopened:
            session = self._unopened.popleft()
            arrival = self._load.sessions[session][0].arrival_s
            heapq.heappush(self._due, (now if arrival is None else arrival, session, 0))

    def _arrive(self) -> None:
        while self._due and self._due[0][0] <= self._now:
            due, session, turn = heapq.heappop(self._due)
            asked = self._load.sessions[session][turn]
            keys = self._keys[session]
            for part in asked.added:
                keys.extend(part.node, part.tokens)
                self._length[session] += part.tokens
            prompt = self._length[session]
            keys.extend(asked.answer, asked.output)
            self._waiting.append(
                _Sequence(session, turn, asked, keys.keys, prompt, due, total=prompt)
            )

    def _finish(self, sequence: _Sequence) -> None:
        self._pool.release(sequence.held)
        session, turn = sequence.session, sequence.turn
        if self._load.threaded:
            self._length[session] += sequence.asked.output
        else:
            self._keys[session].cut(sequence.prompt)
        self._records.append(_record(self._load.workload, sequence, self._now))
        turns = self._load.sessions[session]
        if turn + 1 < len(turns):
            following = turns[turn + 1]
            due = self._now + following.think_s
            heapq.heappush(
                self._due,
                (due if following.arrival_s is None else following.arrival_s, session, turn + 1),
            )
        elif self._load.concurrency is not None:
            self._open_next(self._now)

    # --- one step --------------------------------------------------------------------------------

    def _advance(self) -> None:
        count = 1 if self._one_by_one else self._quiet_steps()
        if count > 1:
            self._decode(count)
            return
        self._execute(self._schedule())

    def _schedule(self) -> list[tuple[_Sequence, int]]:
        """The sequences of the next step with their tokens: running ones first, then waiting ones."""
        budget = self._limits.max_num_batched_tokens
        plan: list[tuple[_Sequence, int]] = []
        before, index = self._preemptions, 0
        while index < len(self._running) and budget > 0:
            sequence = self._running[index]
            tokens = self._wanted(sequence, budget)
            if tokens == 0:
                index += 1
                continue
            if not self._make_room(sequence, tokens):
                break
            plan.append((sequence, tokens))
            budget -= tokens
            index += 1
        if self._preemptions == before:
            self._admit(plan, budget)
        return plan

    def _wanted(self, sequence: _Sequence, budget: int) -> int:
        return self._clipped(sequence, sequence.computed, budget)

    def _clipped(self, sequence: _Sequence, start: int, budget: int) -> int:
        """Tokens of a sequence in the next step, which may be none."""
        tokens = min(sequence.total - start, budget)
        if self._limits.long_prefill_tokens:
            tokens = min(tokens, self._limits.long_prefill_tokens)
        if not self._limits.recurrent:
            return tokens
        return clip(self._prompt(sequence), start, tokens, self._chunking)

    def _prompt(self, sequence: _Sequence) -> Prompt:
        return Prompt(sequence.prompt, sequence.total, sequence.junction)

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self._limits.block_tokens)

    def _make_room(self, sequence: _Sequence, tokens: int) -> bool:
        """Take blocks for a running sequence; the last to run loses its own where there are none."""
        need = self._blocks_for(sequence.computed + tokens) - len(sequence.held)
        while need > self._pool.available:
            victim = self._running.pop()
            self._preempt(victim)
            if victim is sequence:
                return False
        if need > 0:
            sequence.held += self._pool.take(need)
        return True

    def _preempt(self, victim: _Sequence) -> None:
        self._pool.release(victim.held)
        victim.held, victim.computed, victim.full = [], 0, 0
        self._preemptions += 1
        self._waiting.appendleft(victim)

    def _admit(self, plan: list[tuple[_Sequence, int]], budget: int) -> None:
        while self._waiting and budget > 0 and len(self._running) < self._limits.max_num_seqs:
            sequence = self._waiting[0]
            hits, tokens, need = self._terms_of_entry(sequence, budget)
            if need is None:
                return
            shared = sequence.keys[:hits]
            self._pool.share(shared)
            sequence.held = [*shared, *self._pool.take(need)]
            sequence.computed, sequence.full = hits * self._limits.block_tokens, hits
            if sequence.cached is None:
                sequence.cached = sequence.computed
            self._waiting.popleft()
            self._running.append(sequence)
            plan.append((sequence, tokens))
            budget -= tokens

    def _terms_of_entry(self, sequence: _Sequence, budget: int) -> tuple[int, int, int | None]:
        """Cached blocks, tokens and new blocks with which a sequence enters; no blocks: not now."""
        block = self._limits.block_tokens
        hits = self._pool.hits(sequence.keys, (sequence.total - 1) // block)
        if self._limits.recurrent:
            sequence.junction = hits * block
            hits = self._pool.resumable(sequence.keys, hits)
        start = hits * block
        if sequence.total - start > budget and not self._limits.chunked_prefill:
            return hits, 0, None
        tokens = self._clipped(sequence, start, budget)
        need = self._blocks_for(start + tokens) - hits
        if tokens == 0 or need > self._pool.available - self._pool.idle(sequence.keys[:hits]):
            return hits, 0, None
        return hits, tokens, need

    def _execute(self, plan: Sequence[tuple[_Sequence, int]]) -> None:
        batch = _batch(plan)
        seconds = self._time.step(batch)
        start, self._now = self._now, self._now + seconds
        for sequence, tokens in plan:
            sequence.computed += tokens
            self._computed += tokens
            self._fill(sequence)
            if sequence.computed == sequence.total:
                self._sample(sequence, 1)
        self._leave()
        self._note(start, seconds, 1, batch)

    def _fill(self, sequence: _Sequence) -> None:
        full = sequence.computed // self._limits.block_tokens
        if full > sequence.full:
            self._pool.fill(sequence.held, sequence.keys, sequence.full, full)
            if self._limits.recurrent and keeps_state(
                self._prompt(sequence), sequence.computed, self._chunking
            ):
                self._pool.keep_state(sequence.keys[full - 1])
            sequence.full = full

    def _sample(self, sequence: _Sequence, tokens: int) -> None:
        sequence.total += tokens
        sequence.generated += tokens
        if sequence.first is None:
            sequence.first = self._now

    def _leave(self) -> None:
        done = [s for s in self._running if s.generated >= s.asked.output]
        if done:
            self._running = [s for s in self._running if s.generated < s.asked.output]
            for sequence in done:
                self._finish(sequence)

    def _note(self, start: float, seconds: float, count: int, batch: Batch) -> None:
        self._steps.append(
            Step(start, seconds, count, batch, len(self._waiting), self._pool.available)
        )

    # --- many steps at once ----------------------------------------------------------------------

    def _quiet_steps(self) -> int:
        """How many steps from now on hold the running sequences alone, a token each."""
        running = self._running
        if not running or not all(s.decoding for s in running):
            return 1
        if len(running) > self._limits.max_num_batched_tokens:
            return 1
        if self._waiting and self._could_admit():
            return 1
        count = min(s.asked.output - s.generated for s in running)
        count = self._until_due(count)
        while count > 1 and self._growth(count) > self._pool.available:
            count //= 2
        return count

    def _could_admit(self) -> bool:
        """Whether the next step would take a waiting request in.

        Where it would not, no step of these sequences alone changes that: they only need more.
        """
        budget = self._limits.max_num_batched_tokens - len(self._running)
        if len(self._running) >= self._limits.max_num_seqs or budget <= 0:
            return False
        return self._terms_of_entry(self._waiting[0], budget)[2] is not None

    def _growth(self, count: int) -> int:
        return sum(
            max(0, self._blocks_for(s.computed + count) - len(s.held)) for s in self._running
        )

    def _until_due(self, count: int) -> int:
        """The fewest steps after which the next request is due, if that is before ``count``."""
        if not self._due:
            return count
        batch = self._decode_batch()
        left, slope = self._due[0][0] - self._now, self._time.growth(batch)
        first = self._time.step(batch)
        if left <= first:
            return 1
        # n steps take n * first + slope * n * (n - 1) / 2 seconds.
        half = first - slope / 2
        steps = (
            left / first if slope == 0 else (math.sqrt(half**2 + 2 * slope * left) - half) / slope
        )
        return max(1, min(count, math.ceil(steps - 1e-9)))

    def _decode_batch(self) -> Batch:
        return Batch(0, 0.0, len(self._running), sum(s.computed + 1 for s in self._running))

    def _decode(self, count: int) -> None:
        batch = self._decode_batch()
        seconds = (
            count * self._time.step(batch) + self._time.growth(batch) * count * (count - 1) / 2
        )
        start, self._now = self._now, self._now + seconds
        for sequence in self._running:
            need = self._blocks_for(sequence.computed + count) - len(sequence.held)
            if need > 0:
                sequence.held += self._pool.take(need)
            sequence.computed += count
            self._fill(sequence)
            self._sample(sequence, count)
        self._computed += count * len(self._running)
        self._leave()
        self._note(start, seconds, count, batch)


def _batch(plan: Sequence[tuple[_Sequence, int]]) -> Batch:
    prefill = seqs = kv = 0
    work = 0.0
    for sequence, tokens in plan:
        if tokens == 1 and sequence.decoding:
            seqs += 1
            kv += sequence.computed + 1
        else:
            prefill += tokens
            work += tokens * (sequence.computed + (tokens + 1) / 2)
    return Batch(prefill, work, seqs, kv)


def _record(workload: str, sequence: _Sequence, end: float) -> Record:
    return Record(
        workload=workload,
        session=sequence.session,
        turn=sequence.turn,
        scheduled=sequence.due,
        sent=sequence.due,
        first_token=sequence.first,
        end=end,
        prompt_tokens=sequence.prompt,
        cached_tokens=sequence.cached,
        output_tokens=sequence.asked.output,
        finish_reason="length",
        status=200,
    )

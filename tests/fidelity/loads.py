"""Small loads for the tests of the simulator."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tuner.fidelity.asked import Asked, AskedTurn, Stretch
from tuner.fidelity.simulate import Scheduler
from tuner.fidelity.steptime import Batch


class Every:
    """Every step takes a second."""

    def step(self, batch: Batch) -> float:
        return 1.0 + 0.0 * batch.decode_seqs

    def growth(self, batch: Batch) -> float:
        return 0.0 * batch.decode_seqs


class Mixed:
    """A step time with all terms, in seconds that are easy to tell apart."""

    def step(self, batch: Batch) -> float:
        return (
            0.01 + 1e-5 * batch.prefill_tokens + 2e-3 * batch.decode_seqs + 1e-5 * batch.kv_tokens
        )

    def growth(self, batch: Batch) -> float:
        return 1e-5 * batch.decode_seqs


def load(
    sessions: Sequence[Sequence[tuple[int, int]]],
    *,
    concurrency: int | None = 1,
    shared: int = 0,
    arrivals: Sequence[float] | None = None,
    think: float = 0.0,
    threaded: bool = True,
) -> Asked:
    """Conversations of (new tokens, answer tokens), with a common beginning of ``shared`` tokens."""
    node = 1
    made = []
    for number, turns in enumerate(sessions):
        done = []
        for index, (tokens, output) in enumerate(turns):
            node += 2
            added: tuple[Stretch, ...] = (Stretch(node, tokens),)
            if index == 0 and shared:
                added = (Stretch(1, shared), *added)
            arrival = arrivals[number] if arrivals and index == 0 else None
            done.append(AskedTurn(added, output, node + 1, think if index else 0.0, arrival))
        made.append(tuple(done))
    return Asked("w", tuple(made), concurrency, threaded)


turns = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=3)
loads = st.builds(
    lambda sessions, concurrency, shared, think, threaded: load(
        sessions, concurrency=concurrency, shared=shared, think=think, threaded=threaded
    ),
    st.lists(turns, min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(0, 20),
    st.sampled_from([0.0, 0.05, 0.7]),
    st.booleans(),
)


@st.composite
def schedulers(draw: st.DrawFn, asked: Asked) -> Scheduler:
    """An engine that can serve the load, often with little room to spare."""
    block = draw(st.sampled_from([1, 4, 7]))
    least = -(-asked.longest() // block)
    chunked = draw(st.booleans())
    budget = draw(st.integers(1, 64)) if chunked else asked.longest() + draw(st.integers(0, 20))
    return Scheduler(
        max_num_seqs=draw(st.integers(1, 6)),
        max_num_batched_tokens=budget,
        blocks=least + draw(st.integers(0, 12)),
        block_tokens=block,
        prefix_caching=draw(st.booleans()),
        chunked_prefill=chunked,
        long_prefill_tokens=draw(st.sampled_from([0, 0, 5])) if chunked else 0,
    )

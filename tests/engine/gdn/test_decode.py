from __future__ import annotations

import pytest
import torch
from gdn.hostile import KINDS, make

from enginex.gdn.chunked import chunked
from enginex.gdn.decode import decode
from enginex.gdn.reference import error_bound, reference


@pytest.mark.parametrize("kind", KINDS)
def test_token_by_token_within_the_bound_of_the_reference(kind: str) -> None:
    seq = make(kind, 7, 300)
    exact = reference(*seq.tensors, seq.state, scale=1.0)
    assert seq.state is not None
    states = seq.state.clone()[None]
    out = torch.cat(
        [decode(*(x[t, None] for x in seq.tensors), states, scale=1.0) for t in range(300)]
    )
    bound = error_bound(exact.size, 300, 1)
    assert bool(out.isfinite().all())
    away = torch.linalg.vector_norm(out.double() - exact.out, dim=-1)
    assert bool((away <= bound).all())
    off = torch.linalg.vector_norm(states[0].double() - exact.state, dim=(1, 2))
    assert bool((off <= bound).all())


def test_decode_goes_on_where_the_prompt_ended() -> None:
    seq = make("plain", 2, 80)
    whole, _ = chunked(*seq.tensors, seq.state)
    _, state = chunked(*(x[:79] for x in seq.tensors), seq.state)
    last = decode(*(x[79, None] for x in seq.tensors), state[None].clone())
    torch.testing.assert_close(last[0], whole[79])


def test_slots_of_a_pool_are_written_and_the_others_left() -> None:
    seqs = [make("plain", seed, 1) for seed in (1, 2)]
    pool = torch.randn(5, *seqs[0].state.shape)  # type: ignore[union-attr] - made with a state
    before = pool.clone()
    batch = [torch.cat(parts) for parts in zip(*(s.tensors for s in seqs), strict=True)]
    out = decode(*batch, pool, torch.tensor([3, 0], dtype=torch.int32))
    assert torch.equal(pool[[1, 2, 4]], before[[1, 2, 4]])
    for number, (seq, slot) in enumerate(zip(seqs, (3, 0), strict=True)):
        alone = before[slot, None].clone()
        torch.testing.assert_close(out[number], decode(*seq.tensors, alone)[0])
        torch.testing.assert_close(pool[slot], alone[0])

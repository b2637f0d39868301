from fractions import Fraction

import pytest

from tuner.memory.layers import (
    Attention,
    AttentionKind,
    State,
    StateKind,
    state_bytes,
    token_bytes,
)

GQA = Attention(AttentionKind.FULL, 8, 128, 128)
LATENT = Attention(AttentionKind.MLA, 1, 576, 0)


@pytest.mark.parametrize(("tp", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_heads_on_a_rank(tp: int, heads: int) -> None:
    assert GQA.local_heads(tp) == heads
    assert LATENT.local_heads(tp) == 1


@pytest.mark.parametrize(
    ("attention", "kv_dtype", "tp", "expected"),
    [
        (GQA, "auto", 1, 8 * 256 * 2),
        (GQA, "auto", 4, 2 * 256 * 2),
        (GQA, "auto", 32, 256 * 2),
        (GQA, "fp8", 1, 8 * 256),
        (GQA, "int8_per_token_head", 1, 8 * 256 + 8 * 2 * 4),
        (GQA, "nvfp4", 1, 8 * 256 * 9 / 16),
        (GQA, "a_type_of_tomorrow", 1, 8 * 256 * 3 / 8),
        (LATENT, "auto", 1, 1152),
        (LATENT, "auto", 8, 1152),
        (LATENT, "fp8_ds_mla", 8, 656),
        (LATENT, "fp8", 1, 576),
    ],
)
def test_bytes_of_a_token(attention: Attention, kv_dtype: str, tp: int, expected: float) -> None:
    assert token_bytes(attention, kv_dtype, "bfloat16", tp) == Fraction(expected)


def test_bytes_of_a_gated_delta_net() -> None:
    """The target model's layer: conv (2*16*128 + 32*128) x 3 and 32 x 128 x 128."""
    state = State(StateKind.GDN, 8192, 4, 32, 128 * 128)
    one = state_bytes(state, model_dtype="bfloat16", ssm_dtype="float32", tp=1, speculative=0)
    assert one == 8192 * 3 * 2 + 32 * 128 * 128 * 4 == 2_146_304
    four = state_bytes(state, model_dtype="bfloat16", ssm_dtype="float32", tp=4, speculative=0)
    assert four == one // 4
    small = state_bytes(state, model_dtype="bfloat16", ssm_dtype="auto", tp=1, speculative=2)
    assert small == 8192 * 5 * 2 + 32 * 128 * 128 * 2


def test_mamba_groups_are_copied_where_they_do_not_divide() -> None:
    """vLLM adds groups until each rank has one: 2 groups on 4 ranks become 4."""
    state = State(StateKind.MAMBA2, 64 * 16 + 2 * 2 * 32, 4, 64, 16 * 32, 2, 2 * 32)
    assert state.conv_elements(2) == (64 * 16 + 2 * 2 * 32) // 2 * 3
    assert state.conv_elements(4) == (64 * 16 + 2 * 4 * 32) // 4 * 3
    assert state.recurrent_elements(4) == 16 * 16 * 32

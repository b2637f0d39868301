import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.checkpoints import config, facts, tensors
from tuner.memory.headers import Tensor
from tuner.memory.tensors import Share, TensorKind, classify, group_tensors

K, S = TensorKind, Share


@pytest.mark.parametrize(
    ("name", "kind", "share"),
    [
        ("model.embed_tokens.weight", K.EMBEDDING, S.VOCAB),
        ("transformer.wte.weight", K.EMBEDDING, S.VOCAB),
        ("backbone.embeddings.weight", K.EMBEDDING, S.VOCAB),
        ("lm_head.weight", K.HEAD, S.VOCAB),
        ("model.norm.weight", K.NORM, S.WHOLE),
        ("model.layers.3.input_layernorm.weight", K.NORM, S.WHOLE),
        ("model.layers.3.self_attn.q_proj.weight", K.ATTENTION, S.SPLIT),
        ("model.layers.3.self_attn.k_proj.weight", K.ATTENTION, S.KV_HEADS),
        ("model.layers.3.self_attn.v_proj.bias", K.ATTENTION, S.KV_HEADS),
        ("model.layers.3.self_attn.k_norm.weight", K.NORM, S.WHOLE),
        ("model.layers.3.self_attn.o_proj.weight", K.ATTENTION, S.SPLIT),
        ("model.layers.3.self_attn.o_proj.bias", K.ATTENTION, S.WHOLE),
        ("model.layers.3.self_attn.qkv_proj.weight", K.ATTENTION, S.FUSED_QKV),
        ("transformer.h.3.attn.c_attn.weight", K.ATTENTION, S.FUSED_QKV),
        ("model.layers.3.self_attn.kv_a_proj_with_mqa.weight", K.ATTENTION, S.WHOLE),
        ("model.layers.3.self_attn.kv_b_proj.weight", K.ATTENTION, S.SPLIT),
        ("model.layers.3.self_attn.q_a_layernorm.weight", K.NORM, S.WHOLE),
        ("model.layers.3.self_attn.indexer.wq_b.weight", K.ATTENTION, S.WHOLE),
        ("model.layers.3.mlp.gate_proj.weight", K.MLP, S.SPLIT),
        ("model.layers.3.mlp.down_proj.weight", K.MLP, S.SPLIT),
        ("model.layers.3.mlp.down_proj.bias", K.MLP, S.WHOLE),
        ("model.layers.3.mlp.gate.weight", K.ROUTER, S.WHOLE),
        ("model.layers.3.mlp.gate.e_score_correction_bias", K.ROUTER, S.WHOLE),
        ("model.layers.3.block_sparse_moe.gate.weight", K.ROUTER, S.WHOLE),
        ("model.layers.3.mlp.shared_expert_gate.weight", K.ROUTER, S.WHOLE),
        ("model.layers.3.mlp.experts.17.down_proj.weight", K.EXPERTS, S.EXPERTS),
        ("model.layers.3.mlp.experts.gate_up_proj", K.EXPERTS, S.EXPERTS),
        ("model.layers.3.mlp.shared_expert.up_proj.weight", K.SHARED_EXPERT, S.SPLIT),
        ("model.layers.3.mlp.shared_experts.up_proj.weight", K.SHARED_EXPERT, S.SPLIT),
        ("model.layers.3.linear_attn.in_proj_qkvz.weight", K.LINEAR_ATTENTION, S.SPLIT),
        ("model.layers.3.linear_attn.A_log", K.LINEAR_ATTENTION, S.SPLIT),
        ("model.layers.3.linear_attn.norm.weight", K.LINEAR_ATTENTION, S.WHOLE),
        ("backbone.layers.3.mixer.norm.weight", K.LINEAR_ATTENTION, S.SPLIT),
        ("backbone.layers.3.mixer.conv1d.weight", K.LINEAR_ATTENTION, S.SPLIT),
        ("model.visual.blocks.3.attn.qkv.weight", K.VISION, S.SPLIT),
        ("model.visual.blocks.3.norm1.weight", K.VISION, S.WHOLE),
        ("vision_tower.patch_embed.proj.weight", K.VISION, S.WHOLE),
        ("mtp.layers.0.mlp.experts.3.up_proj.weight", K.SPECULATIVE, S.SPLIT),
        ("model.layers.61.self_attn.q_proj.weight", K.SPECULATIVE, S.SPLIT),
        ("something.else", K.OTHER, S.SPLIT),
    ],
)
def test_what_a_tensor_is(name: str, kind: TensorKind, share: Share) -> None:
    assert classify(name, 61)[:2] == (kind, share)


def test_layers_are_numbered() -> None:
    assert classify("model.layers.17.mlp.up_proj.weight", 61)[2] == 17
    assert classify("model.norm.weight", 61)[2] is None


def test_every_tensor_of_every_fixture_is_known() -> None:
    for name in (
        "qwen36_35b_a3b",
        "qwen3_next_tiny",
        "llama_tiny",
        "mixtral_tiny",
        "deepseek_tiny",
    ):
        assert TensorKind.OTHER not in facts(name).bytes_by_kind(), name


def test_the_target_model_adds_up() -> None:
    """The files of Qwen3.6-35B-A3B have 71,903,776,776 bytes; 131,368 of them are their heads."""
    model = facts("qwen36_35b_a3b")
    assert model.checkpoint_bytes == 71_903_776_776 - 131_368
    by_kind = model.bytes_by_kind()
    assert by_kind[TensorKind.EXPERTS] == 40 * 256 * 3 * 2048 * 512 * 2
    assert sum(by_kind.values()) == model.checkpoint_bytes + 30 * 32 * 2, "A_log is widened"


def test_types_that_stay_as_they_are() -> None:
    at = "model.layers.0.mlp.up_proj"
    groups = group_tensors(
        [
            Tensor(f"{at}.weight", "F8_E4M3", (64, 64), 4096),
            Tensor(f"{at}.weight_scale_inv", "F32", (1, 1), 4),
            Tensor("model.layers.0.mlp.down_proj.weight", "BF16", (64, 64), 8192),
            Tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", (32,), 128),
        ],
        1,
    )
    (mlp,) = groups
    assert (mlp.floats, mlp.fixed, mlp.matrices) == (4096, 4100, 4096)


@given(st.text(max_size=60))
def test_any_name_is_something(name: str) -> None:
    kind, share, layer = classify(name, 10)
    assert isinstance(kind, TensorKind)
    assert isinstance(share, Share)
    assert layer is None or layer < 10


def test_nothing_is_lost_in_the_sums() -> None:
    content = tensors(config("mixtral_tiny"))
    groups = group_tensors(content, 6)
    assert sum(group.floats for group in groups) == sum(tensor.count for tensor in content)

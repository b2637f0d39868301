import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.checkpoints import config, facts
from tuner.memory.config import parse_config
from tuner.memory.model import make_facts
from tuner.memory.request import MemoryRequest
from tuner.memory.tensors import TensorKind
from tuner.memory.weights import stage_layers, weights_per_rank

GIB = 2**30
CARD = 34_057_748_480


def on_rank(name: str, request: MemoryRequest) -> list[int]:
    return [stage.size for stage in weights_per_rank(facts(name), request)]


@pytest.mark.parametrize(
    ("name", "request_", "expected"),
    [
        # Bytes of the parameters of each rank, as vLLM 0.32 for the CPU allocated them.
        ("llama_tiny", MemoryRequest(), [7_477_760]),
        ("mistral_tiny", MemoryRequest(), [7_477_760]),
        ("gemma3_tiny", MemoryRequest(), [7_288_832]),
        ("mixtral_tiny", MemoryRequest(), [21_645_824]),
        ("deepseek_tiny", MemoryRequest(), [22_053_376]),
        ("qwen3_next_tiny", MemoryRequest(), [29_732_424]),
        ("mixtral_tiny", MemoryRequest(tp=2), [10_832_384]),
        ("mixtral_tiny", MemoryRequest(tp=2, expert_parallel=True), [10_832_384]),
        ("deepseek_tiny", MemoryRequest(tp=2), [11_928_064]),
        ("gemma3_tiny", MemoryRequest(tp=2), [3_651_584]),
        ("qwen3_next_tiny", MemoryRequest(tp=2), [14_935_588]),
        ("llama_tiny", MemoryRequest(pp=2), [3_738_624, 3_739_136]),
    ],
)
def test_the_engine_allocates_exactly_this(
    name: str, request_: MemoryRequest, expected: list[int]
) -> None:
    assert on_rank(name, request_) == expected


def test_one_head_of_keys_and_values_on_two_ranks() -> None:
    """As the engine allocated it: the one head is on both, the tied embedding is there once."""
    model = facts("llama_tiny", tie_word_embeddings=True, num_key_value_heads=1)
    assert weights_per_rank(model, MemoryRequest(tp=2))[0].size == 3_643_904


def test_the_target_model_on_four_cards() -> None:
    """A start of the fork printed 16.2303 GB for the text model; the rest is its allocator's."""
    (text,) = on_rank("qwen36_35b_a3b", MemoryRequest(tp=4, text_only=True))
    assert text / GIB == pytest.approx(16.1795, abs=1e-4)
    assert 0 <= 16.2303 - text / GIB < 0.06
    (whole,) = on_rank("qwen36_35b_a3b", MemoryRequest(tp=4))
    assert text < whole < 16.7280 * GIB


def test_the_target_model_does_not_fit_two_cards() -> None:
    """All of its files are 9.872 GiB too large for two cards at 0.9; the loaded part still is."""
    (half,) = on_rank("qwen36_35b_a3b", MemoryRequest(tp=2, text_only=True))
    missing = (71_903_776_776 - 2 * 0.9 * CARD) / GIB
    assert missing == pytest.approx(9.872, abs=1e-3)
    assert half > 0.9 * CARD


def test_experts_are_spread_or_split() -> None:
    model = facts("qwen36_35b_a3b")
    split = weights_per_rank(model, MemoryRequest(tp=4))[0].by_kind[TensorKind.EXPERTS]
    spread = MemoryRequest(tp=4, dp=2, expert_parallel=True)
    eighth = weights_per_rank(model, spread)[0].by_kind[TensorKind.EXPERTS]
    assert split == 64_424_509_440 // 4
    assert eighth == 64_424_509_440 // 8
    uneven = facts("mixtral_tiny", num_local_experts=5)
    experts = uneven.bytes_by_kind()[TensorKind.EXPERTS]
    rank = weights_per_rank(uneven, MemoryRequest(tp=2, expert_parallel=True))[0]
    assert rank.by_kind[TensorKind.EXPERTS] == experts * 3 // 5, (
        "the fullest rank has three of five"
    )


def test_what_is_on_every_rank() -> None:
    model = facts("qwen36_35b_a3b")
    one = weights_per_rank(model, MemoryRequest(tp=1))[0].by_kind
    four = weights_per_rank(model, MemoryRequest(tp=4))[0].by_kind
    for kind in (TensorKind.ROUTER, TensorKind.NORM):
        assert four[kind] == one[kind]
    kv = 10 * 2 * 512 * 2048 * 2  # two heads of keys and values: one on each of four ranks
    assert four[TensorKind.ATTENTION] == (one[TensorKind.ATTENTION] - kv) // 4 + kv // 2


def test_the_vocabulary_is_padded_and_tied_embeddings_are_one() -> None:
    one = weights_per_rank(facts("gemma3_tiny"), MemoryRequest())[0].by_kind
    assert one[TensorKind.EMBEDDING] == 384 * 256 * 2
    assert TensorKind.HEAD not in one
    head_in_file = facts("llama_tiny")
    tied = make_facts(parse_config({**config("llama_tiny"), "tie_word_embeddings": True}), ())
    assert tied.config.tied
    assert TensorKind.HEAD in weights_per_rank(head_in_file, MemoryRequest())[0].by_kind


def test_stages_hold_their_own_layers() -> None:
    stages = weights_per_rank(facts("llama_tiny"), MemoryRequest(pp=2))
    assert [stage.layers for stage in stages] == [(0, 3), (3, 6)]
    assert TensorKind.EMBEDDING in stages[0].by_kind
    assert TensorKind.HEAD not in stages[0].by_kind
    assert TensorKind.HEAD in stages[1].by_kind
    tied = weights_per_rank(facts("gemma3_tiny"), MemoryRequest(pp=2))
    assert TensorKind.EMBEDDING in tied[1].by_kind, "the last stage needs it for its logits"


@pytest.mark.parametrize(
    ("count", "pp", "partition", "expected"),
    [
        (6, 2, None, [(0, 3), (3, 6)]),
        (7, 2, None, [(0, 4), (4, 7)]),
        (10, 4, None, [(0, 2), (2, 5), (5, 8), (8, 10)]),
        (6, 2, (2, 4), [(0, 2), (2, 6)]),
        (6, 2, (2, 2), [(0, 3), (3, 6)]),
    ],
)
def test_layers_of_stages(
    count: int, pp: int, partition: tuple[int, ...] | None, expected: list[tuple[int, int]]
) -> None:
    assert stage_layers(count, pp, partition) == expected


@given(st.integers(1, 200), st.integers(1, 16))
def test_every_layer_is_in_one_stage(count: int, pp: int) -> None:
    spans = stage_layers(count, pp, None)
    assert len(spans) == pp
    assert [layer for first, last in spans for layer in range(first, last)] == list(range(count))


def test_types_change_the_size() -> None:
    half = on_rank("llama_tiny", MemoryRequest())[0]
    assert on_rank("llama_tiny", MemoryRequest(dtype="float32"))[0] == 2 * half
    wide = facts("llama_tiny", dtype="F32")
    assert weights_per_rank(wide, MemoryRequest())[0].size == half, "loaded in 16 bits"
    small = on_rank("llama_tiny", MemoryRequest(quantization="fp8"))[0]
    linear = 6 * (512 * 256 + 256 * 256 + 3 * 512 * 256)
    assert small == half - linear
    assert on_rank("llama_tiny", MemoryRequest(quantization="bitsandbytes"))[0] < small


@given(st.sampled_from([1, 2, 4]), st.integers(1, 3), st.booleans())
def test_ranks_together_hold_no_less_than_the_model(
    tp: int,
    pp: int,
    spread: bool,  # noqa: FBT001 — drawn by hypothesis
) -> None:
    model = facts("mixtral_tiny")
    one = weights_per_rank(model, MemoryRequest())[0].size
    request = MemoryRequest(tp=tp, pp=pp, expert_parallel=spread)
    all_ranks = tp * sum(stage.size for stage in weights_per_rank(model, request))
    assert one <= all_ranks + tp * pp

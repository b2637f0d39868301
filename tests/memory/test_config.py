import json
from pathlib import Path
from typing import Any

import pytest

from tests.memory.checkpoints import config
from tuner.errors import ModelUnreadable
from tuner.memory.config import parse_config, read_config


def test_a_multimodal_config_is_read_for_its_text_model() -> None:
    found = parse_config(config("qwen36_35b_a3b"))
    assert found.architecture == "Qwen3_5MoeForConditionalGeneration"
    assert found.model_type == "qwen3_5_moe_text"
    assert (found.hidden, found.vocab, found.experts) == (2048, 248320, 256)
    assert (found.query_heads, found.kv_heads, len(found.layers)) == (16, 2, 40)
    assert (found.dtype, found.ssm_dtype, found.tied) == ("bfloat16", "float32", False)
    assert found.max_len == 262144


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ({"torch_dtype": "float16"}, "float16"),
        ({"dtype": "torch.bfloat16"}, "bfloat16"),
        ({"torch_dtype": "float32"}, "bfloat16"),
        ({"torch_dtype": None}, "bfloat16"),
    ],
)
def test_the_type_that_auto_means(data: dict[str, Any], dtype: str) -> None:
    base = {k: v for k, v in config("llama_tiny").items() if k != "torch_dtype"}
    assert parse_config({**base, **data}).dtype == dtype


def test_states_and_quantization() -> None:
    assert parse_config(config("nemotron_h")).ssm_dtype == "float32"
    assert parse_config(config("qwen3_next_tiny")).ssm_dtype == "auto"
    quantized = {**config("llama_tiny"), "quantization_config": {"quant_method": "awq"}}
    assert parse_config(quantized).quantization == "awq"
    assert parse_config(config("llama_tiny")).quantization is None


def test_a_file_at_fault_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ModelUnreadable, match=r"config\.json: there is no such file — give the folder"
    ):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelUnreadable, match="no JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 2}))
    with pytest.raises(ModelUnreadable, match=r"config\.json: .* is missing"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ModelUnreadable, match="no table"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config("llama_tiny")))
    assert read_config(tmp_path).architecture == "LlamaForCausalLM"


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as out:
        out.truncate(2**34)
    with pytest.raises(ModelUnreadable, match="too large"):
        read_config(tmp_path)

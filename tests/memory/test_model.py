import json
from pathlib import Path

import pytest

from tests.memory.checkpoints import config, tensors, write
from tuner.errors import ModelUnreadable
from tuner.memory.model import find_model, read_model


def folder(at: Path, name: str = "llama_tiny") -> Path:
    at.mkdir(parents=True, exist_ok=True)
    (at / "config.json").write_text(json.dumps(config(name)))
    write(at / "model.safetensors", tensors(config(name)))
    return at


def test_a_folder_is_read(tmp_path: Path) -> None:
    found = read_model(folder(tmp_path))
    assert found.weights_known
    assert found.checkpoint_bytes == sum(each.size for each in tensors(config("llama_tiny")))
    assert found.config.architecture == "LlamaForCausalLM"


def test_a_config_without_weights_is_something(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    found = read_model(tmp_path)
    assert not found.weights_known
    assert found.checkpoint_bytes == 0


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\1\0\0\0\0\0\0\0")
    with pytest.raises(ModelUnreadable):
        read_model(tmp_path)


def test_a_path_is_found(tmp_path: Path) -> None:
    assert find_model(str(folder(tmp_path / "m"))) == tmp_path / "m"
    assert find_model(str(tmp_path / "nothing")) is None


def test_a_name_is_found_in_the_hubs_cache(tmp_path: Path) -> None:
    root = tmp_path / "hub" / "models--org--small"
    folder(root / "snapshots" / "abcdef0123")
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("abcdef0123\n")
    expected = root / "snapshots" / "abcdef0123"
    assert find_model("org/small", {"HF_HOME": str(tmp_path)}) == expected
    assert find_model("org/small", {"HF_HUB_CACHE": str(tmp_path / "hub")}) == expected
    assert find_model("org/other", {"HF_HOME": str(tmp_path)}) is None
    (root / "refs" / "main").write_text("../../../../etc")
    assert find_model("org/small", {"HF_HOME": str(tmp_path)}) is None

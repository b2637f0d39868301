import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.memory.checkpoints import config, tensors, write
from tuner.errors import ModelUnreadable
from tuner.memory.headers import Tensor, read_header, read_headers


def raw(file: Path, head: Any, size: int = 0, length: int | None = None) -> Path:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    count = len(text) if length is None else length
    file.write_bytes(count.to_bytes(8, "little") + text + b"\0" * size)
    return file


def entry(dtype: Any = "BF16", shape: Any = (2, 3), offsets: Any = (0, 12)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_a_sound_file(tmp_path: Path) -> None:
    head = {"__metadata__": {"format": "pt"}, "a": entry(), "s": entry("F32", [], [12, 16])}
    file = raw(tmp_path / "x.safetensors", head, 16)
    assert read_header(file) == (Tensor("a", "BF16", (2, 3), 12), Tensor("s", "F32", (), 4))


def test_types_smaller_than_a_byte(tmp_path: Path) -> None:
    file = raw(tmp_path / "x.safetensors", {"a": entry("F4", [3, 2], [0, 3])}, 3)
    assert read_header(file)[0].size == 3


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"", 0),
        (b"no json", 0),
        (b"[1]", 0),
        (b"[" * 100_000, 0),
        ({"a": 1}, 0),
        ({"a": entry(dtype="X9")}, 12),
        ({"a": entry(dtype=["F32"])}, 12),
        ({"a": entry(shape=[2, -3])}, 12),
        ({"a": entry(shape="23")}, 12),
        ({"a": entry(shape=[2, True])}, 12),
        ({"a": entry(shape=[2**50])}, 12),
        ({"a": entry(offsets=[0, 13])}, 12),
        ({"a": entry(offsets=[12, 0])}, 12),
        ({"a": entry(offsets=[0])}, 12),
        ({"a": entry(offsets=[0, 10])}, 12),
        ({"a": {"dtype": "F32"}}, 12),
    ],
)
def test_a_damaged_head_is_named(tmp_path: Path, head: Any, size: int) -> None:
    file = raw(tmp_path / "x.safetensors", head, size)
    with pytest.raises(ModelUnreadable, match=r"x\.safetensors"):
        read_header(file)


@pytest.mark.parametrize("length", [2**63, 101 * 2**20, 70])
def test_a_length_that_lies(tmp_path: Path, length: int) -> None:
    file = raw(tmp_path / "x.safetensors", {"a": entry()}, 0, length)
    with pytest.raises(ModelUnreadable, match="cut off or too long"):
        read_header(file)


def test_a_file_cut_at_any_byte_is_never_half_read(tmp_path: Path) -> None:
    whole = raw(tmp_path / "whole", {"a": entry(), "b": entry(offsets=[12, 24])}, 24).read_bytes()
    file = tmp_path / "x.safetensors"
    for cut in range(len(whole)):
        file.write_bytes(whole[:cut])
        with pytest.raises(ModelUnreadable):
            read_header(file)


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.safetensors"
    file.write_bytes(content)
    try:
        read_header(file)
    except ModelUnreadable:
        return


def test_a_model_of_72_gb_is_read_in_a_moment(tmp_path: Path) -> None:
    """The tensors are a hole in the file: had they been read, this would take minutes."""
    content = tensors(config("qwen36_35b_a3b"))
    half = len(content) // 2
    write(tmp_path / "model-00001-of-00002.safetensors", content[:half])
    write(tmp_path / "model-00002-of-00002.safetensors", content[half:])
    assert read_headers(tmp_path) == content


def index(folder: Path, weight_map: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_the_index_says_which_files_count(tmp_path: Path) -> None:
    raw(tmp_path / "model-1.safetensors", {"a": entry()}, 12)
    raw(tmp_path / "consolidated.safetensors", {"a": entry()}, 12)
    with pytest.raises(ModelUnreadable, match="two files"):
        read_headers(tmp_path)
    index(tmp_path, {"a": "model-1.safetensors"})
    assert [tensor.name for tensor in read_headers(tmp_path)] == ["a"]


@pytest.mark.parametrize("name", ["../up.safetensors", "/etc/passwd", "..", 3])
def test_the_index_stays_inside_the_folder(tmp_path: Path, name: Any) -> None:
    index(tmp_path, {"a": name})
    with pytest.raises(ModelUnreadable, match="outside the folder"):
        read_headers(tmp_path)


def test_a_missing_shard_and_a_broken_index(tmp_path: Path) -> None:
    index(tmp_path, {"a": "gone.safetensors"})
    with pytest.raises(ModelUnreadable, match=r"gone\.safetensors"):
        read_headers(tmp_path)
    index(tmp_path, ["a"])
    with pytest.raises(ModelUnreadable, match="no index"):
        read_headers(tmp_path)


def test_no_weights_is_no_error(tmp_path: Path) -> None:
    assert read_headers(tmp_path) == ()

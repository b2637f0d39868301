from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.load.conftest import Mock
from tuner.errors import UserError
from tuner.load.endpoint import Endpoint
from tuner.load.tokens import ByteTokens, FileTokens, ServerTokens, TokensUnknown, served_tokens


def test_bytes() -> None:
    assert ByteTokens().count("aé") == 3


def test_the_server_is_asked_once_for_each_text(mock: Mock) -> None:
    with ServerTokens(mock.endpoint) as tokens:
        assert [tokens.count("aé"), tokens.count("aé"), tokens.count("")] == [3, 3, 0]
        messages = [{"role": "user", "content": "hi"}]
        assert tokens.count_chat(messages) == len(
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
        )
        assert tokens.count_chat(messages, [{"x": 1}]) > tokens.count_chat(messages)


def test_a_server_that_does_not_say(mock: Mock, tmp_path: Path) -> None:
    lost = Endpoint(model="llm", port=mock.endpoint.port, prefix="/none")
    with ServerTokens(lost) as tokens, pytest.raises(TokensUnknown, match="/tokenize"):
        tokens.count("a")
    with pytest.raises(TokensUnknown):
        served_tokens(lost)
    with pytest.raises(UserError):
        served_tokens(lost, tmp_path)


def test_the_server_comes_first(mock: Mock) -> None:
    tokens = served_tokens(mock.endpoint)
    assert isinstance(tokens, ServerTokens)
    tokens.close()


def test_a_tokenizer_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tokenizer:
        """The two calls of the tokenizers library that are used."""

        @staticmethod
        def from_file(name: str) -> Tokenizer:
            assert json.loads(Path(name).read_text()) == {}
            return Tokenizer()

        def encode(self, text: str, *, add_special_tokens: bool) -> list[str]:
            assert not add_special_tokens
            return text.split()

    monkeypatch.setitem(sys.modules, "tokenizers", sys.modules[__name__])
    monkeypatch.setattr(sys.modules[__name__], "Tokenizer", Tokenizer, raising=False)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert FileTokens(tmp_path).count("two words") == 2
    assert FileTokens(tmp_path / "tokenizer.json").count("two words") == 2
    with pytest.raises(UserError, match="no tokenizer"):
        FileTokens(tmp_path / "other")


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UserError, match=r"tokenizers library.*enginex-tuner\[tokenizer\]") as said:
        FileTokens(tmp_path)
    assert said.value.exit_code == 2

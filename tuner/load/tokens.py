"""Counting tokens with the tokenizer that the server uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol, Self

import httpx

from tuner.errors import TunerError, UserError
from tuner.load.endpoint import PLAIN, Endpoint


class TokensUnknown(TunerError):
    """Raised when nothing can say how many tokens a text has."""


class Tokens(Protocol):
    """Says how many tokens a text has, without special tokens around it."""

    def count(self, text: str) -> int:
        """Tokens of the text."""


class ByteTokens:
    """A tokenizer for which each byte is a token, such as the tiny model's."""

    def count(self, text: str) -> int:
        """Bytes of the text in UTF-8."""
        return len(text.encode())


class FileTokens:
    """The tokenizer in a ``tokenizer.json``, read with the ``tokenizers`` library.

    Args:
        path: The file, or the model's folder that holds it.

    Raises:
        UserError: When the file or the library is missing.
    """

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer  # noqa: PLC0415  (an optional library)
        except ImportError:
            raise UserError(
                "reading a model's tokenizer needs the tokenizers library",
                mend="install it: pip install 'enginex-tuner[tokenizer]'",
            ) from None
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise UserError(
                f"no tokenizer at {file}", mend="name the folder that holds tokenizer.json"
            )
        self._tokenizer: Any = Tokenizer.from_file(str(file))

    def count(self, text: str) -> int:
        """Tokens of the text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))


class ServerTokens:
    """The server's own tokenizer, asked through vLLM's ``/tokenize``.

    Answers are kept, so that a text is only ever asked about once.

    Args:
        endpoint: The server.
        timeout_s: Time for one answer.
    """

    def __init__(self, endpoint: Endpoint, *, timeout_s: float = 30.0) -> None:
        self._model = endpoint.model
        uds = None if endpoint.uds is None else str(endpoint.uds)
        self._http = httpx.Client(
            base_url=endpoint.url,
            headers=endpoint.headers,
            transport=httpx.HTTPTransport(uds=uds, verify=PLAIN),
            timeout=timeout_s,
        )
        self._known: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the server."""
        self._http.close()

    def count(self, text: str) -> int:
        """Tokens of the text.

        Raises:
            TokensUnknown: When the server does not say.
        """
        if text not in self._known:
            asked = {"prompt": text, "add_special_tokens": False}
            self._known[text] = self._ask(asked)
        return self._known[text]

    def count_chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None
    ) -> int:
        """Tokens of a whole prompt: the messages in the server's chat template.

        Raises:
            TokensUnknown: When the server does not say.
        """
        asked: dict[str, Any] = {"messages": messages, "add_generation_prompt": True}
        if tools:
            asked["tools"] = tools
        return self._ask(asked)

    def _ask(self, asked: dict[str, Any]) -> int:
        try:
            reply = self._http.post("/tokenize", json={"model": self._model, **asked})
            reply.raise_for_status()
            count = reply.json()["count"]
        except (httpx.HTTPError, json.JSONDecodeError, KeyError, TypeError) as wrong:
            raise TokensUnknown(f"the server's /tokenize does not answer: {wrong}") from wrong
        if not isinstance(count, int):
            raise TokensUnknown(f"the server's /tokenize says {count!r} and no count")
        return count


def served_tokens(endpoint: Endpoint, model_dir: Path | None = None) -> ServerTokens | FileTokens:
    """The served tokenizer: through the server where it has ``/tokenize``, else from the model's folder.

    Args:
        endpoint: The running server.
        model_dir: Where the model's ``tokenizer.json`` lies, if that is known.

    Raises:
        TokensUnknown: When the server does not say, and no folder is given.
        UserError: When the folder's tokenizer cannot be read.
    """
    server = ServerTokens(endpoint)
    try:
        server.count("a")
    except TokensUnknown:
        server.close()
        if model_dir is None:
            raise
        return FileTokens(model_dir)
    return server

"""Secrets by value: wherever one of them would be written or shown, a word stands in its place."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

SHORTEST = 6
"""A secret of fewer characters would be found everywhere by chance; it is refused, not hidden."""


class Redactor:
    """Puts ``[NAME]`` in the place of each secret.

    A secret is found as it is and in the two forms in which programs commonly print one: quoted
    in JSON and in a URL.

    Args:
        secrets: Values by the name that stands for them; or pairs of both, where one name has had
            several values.

    Raises:
        ValueError: When a value is too short to be told from ordinary text.
    """

    def __init__(self, secrets: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
        found: dict[str, str] = {}
        for name, value in secrets.items() if isinstance(secrets, Mapping) else secrets:
            if len(value) < SHORTEST:
                raise ValueError(f"the secret {name} has fewer than {SHORTEST} characters")
            found |= dict.fromkeys(_forms(value), f"[{name}]")
        # The longest first: one secret may hold another.
        self._words = sorted(found.items(), key=lambda pair: -len(pair[0]))

    def __bool__(self) -> bool:
        return bool(self._words)

    def text(self, text: str) -> str:
        """A text without secrets."""
        for secret, word in self._words:
            text = text.replace(secret, word)
        return text

    def raw(self, raw: bytes) -> bytes:
        """The bytes of a file without secrets."""
        for secret, word in self._words:
            raw = raw.replace(secret.encode(), word.encode())
        return raw

    def safe_cut(self, raw: bytes) -> int:
        """How much of the bytes holds no beginning of a secret that may go on after them."""
        forms = [secret.encode() for secret, _ in self._words]
        cut = len(raw)
        for form in forms:
            for size in range(min(len(form) - 1, len(raw)), 0, -1):
                if raw.endswith(form[:size]):
                    cut = min(cut, len(raw) - size)
                    break
        # A whole secret that the cut would part goes to the other side as a whole.
        for form in forms:
            at = raw.rfind(form, 0, cut + len(form) - 1)
            if at >= 0 and at < cut < at + len(form):
                cut = at
        return cut

    def data(self, data: Any) -> Any:
        """JSON-ready data without secrets, neither as keys nor as values."""
        if not self._words:
            return data
        if isinstance(data, str):
            return self.text(str(data))
        if isinstance(data, Mapping):
            return {self.data(key): self.data(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.data(item) for item in data]
        return data


NOTHING = Redactor({})
"""Knows no secret."""


def _forms(value: str) -> Iterable[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield urllib.parse.quote(value, safe="")
    yield urllib.parse.quote_plus(value)


class RedactedStream:
    """Takes secrets out of a stream of bytes, however it is cut into pieces.

    Args:
        redact: Knows the secrets.
    """

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._held = b""

    def feed(self, raw: bytes) -> bytes:
        """Take in a piece; returns what can be shown of all that came so far."""
        if not self._redact:
            return raw
        whole = self._held + raw
        cut = self._redact.safe_cut(whole)
        self._held = whole[cut:]
        return self._redact.raw(whole[:cut])

    def end(self) -> bytes:
        """What was held back, when nothing comes any more."""
        rest, self._held = self._held, b""
        return self._redact.raw(rest)

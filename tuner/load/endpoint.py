"""Where the server is: a loopback address or a unix socket, never anything else."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tuner.errors import UserError

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of a server on this machine, which speak no TLS: a context that trusts nobody. Left to
itself, httpx reads all of the machine's certificates for each client, which takes 50 ms."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that speaks the chat completions API.

    Attributes:
        model: The model's name in requests.
        host: Loopback address; not used where ``uds`` is set.
        port: Its port.
        uds: Unix socket that the server listens on.
        prefix: Path before ``/v1``, without a slash at its end; mostly empty.
        api_key: Bearer token, where the server asks for one. Never printed.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    uds: Path | None = None
    prefix: str = ""
    api_key: str | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, model={self.model!r})"

    @property
    def url(self) -> str:
        """The base URL, for people and for httpx."""
        if self.uds is not None:
            return f"http://localhost{self.prefix}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.prefix}"

    @property
    def headers(self) -> dict[str, str]:
        """Headers that every request carries."""
        return {} if self.api_key is None else {"authorization": f"Bearer {self.api_key}"}

    @classmethod
    def parse(cls, url: str, *, model: str, api_key: str | None = None) -> Endpoint:
        """The endpoint that a URL names: ``http://127.0.0.1:8000`` or ``unix:/run/engine.sock``.

        Raises:
            UserError: When the URL is none, or names another machine.
        """
        if url.startswith("unix:"):
            path = Path(url.removeprefix("unix:").removeprefix("//"))
            return cls(model=model, uds=path, api_key=api_key)
        try:
            parts = urlsplit(url)
            port = parts.port or 80
        except ValueError as wrong:
            raise UserError(f"{url!r} is not a URL: {wrong}") from None
        if parts.scheme != "http" or not parts.hostname:
            raise UserError(
                f"{url!r} is not the URL of a local server",
                mend="write http://127.0.0.1:PORT or unix:/path/to/socket",
            )
        if not _loopback(parts.hostname):
            raise UserError(
                f"{parts.hostname} is another machine; a server is only reached on loopback",
                mend="run tuner where the server runs, or forward its port to 127.0.0.1",
            )
        prefix = parts.path.rstrip("/").removesuffix("/v1")
        host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
        return cls(model=model, host=host, port=port, prefix=prefix, api_key=api_key)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
